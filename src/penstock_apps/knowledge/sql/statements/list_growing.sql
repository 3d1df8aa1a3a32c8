-- Some editions of bases into which documents come just now.
SELECT DISTINCT e.tenant, e.id AS edition
  FROM (SELECT s.base FROM :"schema".source AS s
         WHERE s.ended_at IS NULL AND s.batch IS NOT NULL AND s.deleted_at IS NULL
         ORDER BY random() LIMIT $1) AS n
  JOIN :"schema".base AS b ON b.id = n.base AND b.deleted_at IS NULL
  JOIN :"schema".edition AS e ON e.id = b.edition
