-- name: list_stranded_documents
-- Some random documents that have not ended although their jobs may have. Random, as those that only wait may be many.
SELECT d.tenant, d.job, d.id, d.version FROM :"schema".document AS d
 WHERE d.state IN ('pending', 'processing') AND d.job IS NOT NULL AND d.deleted_at IS NULL
   AND d.updated_at < clock_timestamp() - interval '1 minute'
 ORDER BY random()
 LIMIT $1;

-- name: list_idle_batches
-- Some batches of sources that have not ended and in which nothing has happened for a time ($1), and the batches of all
-- editions that are being built.
SELECT DISTINCT n.batch
  FROM (SELECT s.batch FROM :"schema".source AS s
         WHERE s.ended_at IS NULL AND s.batch IS NOT NULL AND s.deleted_at IS NULL
         ORDER BY random() LIMIT $2) AS n
 WHERE NOT EXISTS (SELECT FROM :"schema".document AS d
                    WHERE d.batch = n.batch AND d.state IN ('pending', 'processing')
                      AND d.updated_at > clock_timestamp() - $1::interval)
UNION
SELECT e.batch FROM :"schema".edition AS e WHERE e.state = 'building' AND e.batch IS NOT NULL;

-- name: sweep_drafts
-- Remove some drafts of documents that are gone, have a newer version, or ended a day ago, and count the rows.
WITH gone AS (
    DELETE FROM :"schema".draft AS d
     WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM :"schema".draft AS o
             WHERE NOT EXISTS (
                    SELECT FROM :"schema".document AS w
                     WHERE w.id = o.document AND w.version = o.version
                       AND (w.state IN ('pending', 'processing') OR w.updated_at > clock_timestamp() - interval '1 day'))
             LIMIT $1))
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: sweep_vectors
-- Remove some vectors that were made a day ago and not published since, unless a draft waits for them, and count them.
WITH gone AS (
    DELETE FROM :"schema".vector AS v
     WHERE v.ctid = ANY (ARRAY(
            SELECT o.ctid FROM :"schema".vector AS o
             WHERE o.made_at < clock_timestamp() - interval '1 day'
               AND NOT EXISTS (SELECT FROM :"schema".edition AS e JOIN :"schema".draft AS d ON d.edition = e.id AND d.hash = o.hash
                                WHERE e.tenant = o.tenant AND e.embedder = o.embedder)
             LIMIT $1))
    RETURNING 1
)
SELECT count(*) FROM gone;
