-- Some editions that are searched, with their tenants, drawn by lot: those into which documents come just now ($2), or
-- others.
SELECT e.tenant, e.id AS edition
  FROM :"schema".base AS b JOIN :"schema".edition AS e ON e.id = b.edition
 WHERE b.deleted_at IS NULL
   AND $2 = EXISTS (SELECT FROM :"schema".source AS s
                     WHERE s.base = b.id AND s.ended_at IS NULL AND s.batch IS NOT NULL AND s.deleted_at IS NULL)
 ORDER BY random() LIMIT $1
