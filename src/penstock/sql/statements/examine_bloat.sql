-- name: examine_bloat
-- Tables and indexes against what their rows should take. $1 is the schema, $2 the tables.
--
-- From the server's statistics and the sizes of the files, so no row is read. What a row should take is the
-- average width of its columns and 36 bytes; of an index entry, its columns and 16 bytes, in pages two thirds
-- full. The live rows are an upper bound for the entries of a partial index.
WITH busy AS (
    SELECT c.oid, c.relname::text AS name, s.n_dead_tup AS dead,
           -- A crash of the server forgets its counters; the last ANALYZE is the next best.
           CASE WHEN s.n_live_tup + s.n_dead_tup > 0 THEN s.n_live_tup
                ELSE greatest(c.reltuples, 0)::bigint END AS live,
           extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::double precision AS vacuumed,
           coalesce('autovacuum_enabled=false' = ANY (c.reloptions)
                    OR 'autovacuum_enabled=off' = ANY (c.reloptions), false) AS unattended
      FROM pg_class AS c
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_stat_all_tables AS s ON s.relid = c.oid
     WHERE n.nspname = $1 AND c.relname = ANY ($2::text[])
), width AS (
    SELECT b.oid, a.attnum, p.avg_width
      FROM busy AS b
      JOIN pg_attribute AS a ON a.attrelid = b.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_stats AS p ON p.schemaname = $1 AND p.tablename = b.name AND p.attname = a.attname
)
SELECT 'table' AS kind, b.name, pg_relation_size(b.oid) AS bytes, b.live, b.dead, b.vacuumed, b.unattended,
       (b.live * (36 + (SELECT sum(w.avg_width) FROM width AS w WHERE w.oid = b.oid)))::bigint AS expected
  FROM busy AS b
UNION ALL
SELECT 'index', c.relname::text, pg_relation_size(c.oid), b.live, 0, NULL, false,
       (1.5 * b.live * (16 + (SELECT sum(w.avg_width) FROM width AS w
                               WHERE w.oid = b.oid AND w.attnum = ANY (i.indkey::smallint[]))))::bigint
  FROM busy AS b
  JOIN pg_index AS i ON i.indrelid = b.oid
  JOIN pg_class AS c ON c.oid = i.indexrelid
 ORDER BY 3 DESC;
