-- name: examine_locks
-- How many locks a statement over the whole history takes, a list of jobs for instance, and how many the server has
-- room for. $1 is the schema. The planner locks each partition with all its indexes.
WITH history AS (
    SELECT c.oid FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relname = 'job_history'
), part AS (
    SELECT i.inhrelid AS oid FROM pg_inherits AS i JOIN history AS h ON h.oid = i.inhparent
)
SELECT (SELECT count(*) FROM part)::integer AS partitions,
       (SELECT count(*) FROM (SELECT oid FROM part UNION ALL SELECT oid FROM history) AS t
          LEFT JOIN pg_index AS x ON x.indrelid = t.oid)::integer
       + (SELECT count(*) + 1 FROM part)::integer AS locks,
       current_setting('max_locks_per_transaction')::integer AS max_locks,
       current_setting('max_connections')::integer
       + current_setting('max_prepared_transactions')::integer AS transactions;
