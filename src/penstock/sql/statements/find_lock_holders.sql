-- name: find_lock_holders
-- Who holds locks of a kind on the queue's tables that keeps others from changing them, the longest first: vacuums, index
-- builds, migrations, sessions that have locked a table by hand. $1 is the schema.
SELECT DISTINCT ON (a.xact_start, a.pid) a.pid, c.relname AS "table", coalesce(a.usename, a.backend_type, 'another role') AS who,
       left(regexp_replace(a.query, '\s+', ' ', 'g'), 100) AS query,
       extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds
  FROM pg_locks AS l
  JOIN pg_class AS c ON c.oid = l.relation AND c.relnamespace = to_regnamespace(quote_ident($1::text))
  JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
   AND l.granted AND c.relkind IN ('r', 'p') AND l.pid <> pg_backend_pid()
   AND l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
 ORDER BY a.xact_start, a.pid
 LIMIT 5;
