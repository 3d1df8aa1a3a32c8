-- Some batches of sources or editions that have not ended, and to which nothing was added for a time ($1).
SELECT DISTINCT n.batch
  FROM (SELECT s.batch FROM :"schema".source AS s
         WHERE s.ended_at IS NULL AND s.batch IS NOT NULL AND s.deleted_at IS NULL
         ORDER BY random() LIMIT $2) AS n
 WHERE NOT EXISTS (SELECT FROM :"schema".document AS d
                    WHERE d.batch = n.batch AND d.state IN ('pending', 'processing')
                      AND d.updated_at > clock_timestamp() - $1::interval)
UNION
SELECT e.batch FROM :"schema".edition AS e WHERE e.state = 'building' AND e.batch IS NOT NULL
