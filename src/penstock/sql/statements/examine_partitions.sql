-- name: examine_partitions
-- The first day that has no history partition although settles will need it. $1 is the schema, $2 how many
-- days to look ahead. A job that ends in `ahead` days and is kept for `days` goes on `day`; `apart` says that a table of
-- that name exists and is not attached, and `parent` to which other table it belongs, if to any.
WITH kept AS (
    SELECT 7 AS days UNION SELECT 30 UNION SELECT r.days FROM :"schema".retention AS r
), wanted AS (
    SELECT a.ahead, k.days,
           :"schema".expires_on_v1((statement_timestamp() AT TIME ZONE 'UTC')::date + a.ahead, k.days) AS day
      FROM generate_series(0, $2::integer) AS a (ahead) CROSS JOIN kept AS k
), present AS (
    SELECT c.relname, h.oid = i.inhparent AND NOT i.inhdetachpending AS attached,
           (SELECT format('%s.%I', o.relnamespace::regnamespace, o.relname) FROM pg_class AS o
             WHERE o.oid = i.inhparent AND o.oid <> h.oid) AS parent
      FROM pg_class AS c
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_class AS h ON h.relnamespace = n.oid AND h.relname = 'job_history'
      LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
     WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname LIKE 'job\_history\_%'
)
SELECT w.ahead, w.days, w.day, p.relname IS NOT NULL AS apart, p.parent
  FROM wanted AS w
  LEFT JOIN present AS p ON p.relname = 'job_history_' || to_char(w.day, 'YYYYMMDD')
 WHERE p.attached IS NOT TRUE
 ORDER BY w.ahead, w.day
 LIMIT 1;
