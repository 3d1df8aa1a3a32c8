-- name: ensure_partitions
-- Create the history partitions that are missing ahead.
SELECT :"schema".ensure_partitions_v1($1);

-- name: list_expired_partitions
-- Return the history partitions past their day, and the statements that remove each one, step by step.
--
-- $1 is the schema, $2 the time or NULL. The steps are: finalize a pending detach before another begins, detach an attached
-- partition, drop a detached one. A step that waits for a reader gives up at the lock_timeout; the next call finds the
-- partition as it was left and tries again. A role that does not own partitions calls a function instead, in one step.
-- Partitions that belong to another table by now are left alone.
-- Yesterday's is the youngest, because a settle that began before midnight may still write to today's.
SELECT c.relname::text AS name,
       i.inhrelid IS NOT NULL AND o.ours AS attached,
       coalesce(i.inhdetachpending, false) AND o.ours AS pending,
       format('ALTER TABLE %I.job_history DETACH PARTITION %I.%I CONCURRENTLY', $1::text, $1::text, c.relname) AS detach,
       format('ALTER TABLE %I.job_history DETACH PARTITION %I.%I FINALIZE', $1::text, $1::text, c.relname) AS finalize,
       format(CASE WHEN o.ours THEN 'DROP TABLE %I.%I' ELSE 'SELECT %I.drop_partition_v1(%L)' END,
              $1::text, c.relname) AS drop
  FROM pg_class AS c
 CROSS JOIN LATERAL (SELECT pg_has_role(c.relowner, 'USAGE') AS ours) AS o
  LEFT JOIN pg_inherits AS i ON i.inhrelid = c.oid
 WHERE c.relnamespace = to_regnamespace(quote_ident($1::text))
   AND c.relkind = 'r'
   AND (i.inhparent IS NULL OR i.inhparent = to_regclass(format('%I.job_history', $1::text)))
   AND c.relname ~ '^job_history_[0-9]{8}$'
   AND c.relname < 'job_history_' || to_char(
           coalesce($2::timestamptz, statement_timestamp()) AT TIME ZONE 'UTC', 'YYYYMMDD')
 ORDER BY coalesce(i.inhdetachpending, false) DESC, c.relname
