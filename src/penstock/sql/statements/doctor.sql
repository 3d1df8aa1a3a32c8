-- name: examine_batches
-- Return batches that do not finish: open without a change for $1 seconds, or done for $2 seconds and not finished.
-- $3 is how many to read at most.
SELECT s.id, s.name, s.is_open, s.seconds
  FROM (SELECT b.id, b.name, b.closed_at IS NULL AS is_open, b.pending,
               extract(epoch FROM clock_timestamp() - CASE WHEN b.closed_at IS NULL
                   THEN greatest(b.created_at, b.folded_at) ELSE b.closed_at END)::double precision AS seconds
          FROM :"schema".batch AS b
         WHERE b.finished_at IS NULL ORDER BY b.id LIMIT $3::integer) AS s
 WHERE CASE WHEN s.is_open THEN s.seconds >= $1::double precision
            ELSE s.seconds >= $2::double precision AND s.pending + (
                SELECT coalesce(sum(d.pending), 0) FROM :"schema".batch_delta AS d WHERE d.batch = s.id) = 0 END
 ORDER BY s.seconds DESC;

-- name: examine_bloat
-- Compare the size of tables and indexes with what their rows should take. $1 is the schema, $2 the tables.
--
-- This uses the server's statistics and the sizes of files, so no row is read. A row should take the average width of its
-- columns plus 36 bytes, and an index entry its columns plus 16 bytes, in pages that are two thirds full. The number of
-- live rows is an upper bound for the entries of a partial index.
WITH busy AS (
    SELECT c.oid, c.relname::text AS name, s.n_dead_tup AS dead,
           -- A crash of the server resets its counters; then the last ANALYZE is the best estimate.
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

-- name: examine_closed_buckets
-- Return closed buckets, those that stay closed for longest first.
SELECT b.key, extract(epoch FROM b.closed_until - clock_timestamp())::double precision AS seconds
  FROM :"schema".bucket AS b
 WHERE b.closed_until > clock_timestamp()
 ORDER BY b.closed_until DESC
 LIMIT 100;

-- name: examine_connections
-- Return how many connections there are and how many are allowed: on the server, to this database, of this role.
SELECT 'server' AS whose, '' AS name, (SELECT sum(d.numbackends) FROM pg_stat_database AS d)::integer AS used,
       current_setting('max_connections')::integer
       - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true), '0')::integer AS most
UNION ALL
SELECT 'database', d.datname::text, s.numbackends, d.datconnlimit
  FROM pg_database AS d
  JOIN pg_stat_database AS s ON s.datid = d.oid
 WHERE d.datname = current_database() AND d.datconnlimit >= 0
UNION ALL
SELECT 'role', r.rolname::text,
       (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid)::integer, r.rolconnlimit
  FROM pg_roles AS r
 WHERE r.rolname = session_user AND r.rolconnlimit >= 0;

-- name: examine_failures
-- Count failures of the last hour by task and error, at most the latest $1.
SELECT f.task, f.reason, f.error, count(*)::integer AS jobs, max(f.id) AS example,
       (array_agg(f.message ORDER BY f.id DESC))[1] AS message
  FROM (
    SELECT h.id, h.task, h.reason, h.errors -> -1 ->> 'type' AS error,
           left(h.errors -> -1 ->> 'message', 200) AS message
      FROM :"schema".job_history AS h
     WHERE h.state = 'failed' AND h.finished_at > statement_timestamp() - interval '1 hour'
     ORDER BY h.finished_at DESC
     LIMIT $1
  ) AS f
 GROUP BY f.task, f.reason, f.error
 ORDER BY jobs DESC;

-- name: examine_functions
-- Return which functions are missing in the schema, or have another body than Penstock's.
-- $1 is the schema, $2 the names, $3 the bodies.
SELECT f.name, bool_and(p.oid IS NULL) AS missing
  FROM unnest($2::text[], $3::text[]) AS f (name, body)
  LEFT JOIN (pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname = $1)
    ON p.proname = f.name
 WHERE p.oid IS NULL OR p.prosrc <> f.body
 GROUP BY f.name
 ORDER BY f.name;

-- name: examine_hidden_sessions
-- Return how many sessions on this database hide their details from our role. The server's own processes do not count.
SELECT count(*)::integer AS hidden, current_user::text AS role
  FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.usesysid IS NOT NULL AND a.query = '<insufficient privilege>';

-- name: examine_idle_grants
-- Return limits for whose slots workers wait although no running job uses them. $1 is how many running jobs to read at
-- most: if there are more, it returns nothing.
WITH run AS MATERIALIZED (
    SELECT j.queue, j.lane, j.task FROM :"schema".job AS j WHERE j.state = 'running'
     ORDER BY j.lease LIMIT $1::integer + 1
), used AS MATERIALIZED (
    SELECT 'queue:' || r.queue AS key FROM run AS r
    UNION SELECT 'lane:' || r.queue || ':' || split_part(r.lane, E'\x1f', 1) FROM run AS r
    UNION SELECT 'task:' || r.task FROM run AS r
    UNION SELECT unnest((string_to_array(r.lane, E'\x1f'))[2:]) FROM run AS r
)
SELECT g.key, max(l.slots) AS slots, sum(g.slots)::integer AS granted,
       array_agg(e.worker ORDER BY e.worker) FILTER (WHERE g.slots > 0) AS holders,
       array_agg(e.worker ORDER BY e.worker) FILTER (WHERE g.wanted > g.slots) AS waiters
  FROM :"schema"."grant" AS g
  JOIN :"schema".lease AS e ON e.id = g.lease AND e.expires_at > statement_timestamp()
 CROSS JOIN LATERAL :"schema".get_limit_v1(g.key) AS l
 WHERE l.slots > 0 AND (SELECT count(*) FROM run) <= $1::integer
   AND NOT EXISTS (SELECT FROM used AS u WHERE u.key = g.key)
 GROUP BY g.key
HAVING bool_or(g.wanted > g.slots)
 ORDER BY g.key
 LIMIT 100;

-- name: examine_indexes
-- Return which indexes are missing or invalid. $1 is the schema, $2 the names.
SELECT i.name, c.oid IS NULL AS missing
  FROM unnest($2::text[]) AS i (name)
  LEFT JOIN (pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = $1
                           JOIN pg_index AS x ON x.indexrelid = c.oid)
    ON c.relname = i.name
 WHERE c.oid IS NULL OR NOT x.indisvalid
 ORDER BY i.name;

-- name: examine_lanes
-- Return each lane in which jobs wait, with what may hold it back: a pause, closed windows, a limit of 0.
-- $1 is how many pairs of lane and priority to read, for each queue and in all; $2 how far to count jobs without a lane.
-- A skip scan of the ready index finds queues and lanes: one step for each lane and priority, not for each job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.ready_at
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lanes_v1(n.queue, '', $1::integer) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $1::integer
)
SELECT l.queue, l.lane, extract(epoch FROM clock_timestamp() - l.oldest)::double precision AS seconds,
       extract(epoch FROM clock_timestamp() - s.paused_at)::double precision AS paused,
       w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open, v.changes_in AS queue_changes_in,
       coalesce(q.fair, false) AS fair,
       CASE WHEN q.fair AND l.lane = '' THEN (
           SELECT count(*) FROM (SELECT FROM :"schema".job AS j
                                  WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = ''
                                  ORDER BY j.priority DESC, j.ready_at, j.id LIMIT $2::integer) AS few)
       END AS laneless,
       CASE WHEN EXISTS (SELECT FROM :"schema".limit_setting AS z WHERE z.slots = 0 OR z.rate = 0) THEN (
           SELECT k.key
             FROM (VALUES ('queue:' || l.queue), ('lane:' || l.queue || ':' || split_part(l.lane, E'\x1f', 1))
                   UNION ALL SELECT unnest((string_to_array(l.lane, E'\x1f'))[2:])) AS k (key)
            CROSS JOIN LATERAL :"schema".get_limit_v1(k.key) AS z
            WHERE z.slots = 0 OR z.rate = 0
            LIMIT 1)
       END AS shut_by
  FROM (SELECT i.queue, i.lane, min(i.ready_at) AS oldest FROM line AS i GROUP BY i.queue, i.lane) AS l
  LEFT JOIN :"schema".queue AS q ON q.name = l.queue
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = l.queue AND s.lane = split_part(l.lane, E'\x1f', 1)
 CROSS JOIN LATERAL :"schema".check_windows_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".check_windows_v1(q.windows, statement_timestamp()) AS v
 ORDER BY l.queue, l.lane;

-- name: examine_late_jobs
-- Count jobs past their soft deadline, by queue. $1 is how many to read at most: of waiting jobs, from the oldest of each
-- lane and priority on, of running jobs, and of due jobs.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.priority
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lanes_v1(n.queue, '', $1::integer) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $1::integer
), found AS (
    SELECT f.id, f.queue, f.lane, f.tenant, f.run_at
      FROM line AS l
     CROSS JOIN LATERAL (
           SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
            WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane AND j.priority = l.priority
            ORDER BY j.ready_at, j.id
            LIMIT greatest($1::integer / greatest((SELECT count(*) FROM line), 1), 1)) AS f
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'running' ORDER BY j.lease LIMIT $1::integer)
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'scheduled' AND j.run_at < statement_timestamp() ORDER BY j.run_at LIMIT $1::integer)
)
SELECT f.queue, count(*)::integer AS jobs, max(d.late) AS seconds,
       count(DISTINCT split_part(f.lane, E'\x1f', 1))::integer AS lanes
  FROM found AS f
 CROSS JOIN LATERAL :"schema".lateness_v1(f.queue, f.lane, f.tenant, f.run_at, statement_timestamp()) AS d
 WHERE d.late IS NOT NULL
 GROUP BY f.queue
 ORDER BY jobs DESC, f.queue;

-- name: examine_locks
-- Return how many locks a statement on the whole history takes, such as a list of jobs, and how many the server has room
-- for. $1 is the schema. The planner locks each partition with all its indexes.
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

-- name: examine_lost_jobs
-- Count running jobs without a valid lease, by worker. $1 is how many to read at most.
-- As rescue_v1 does, it scans the gaps between the ids of valid leases, not the entries of these leases.
WITH living AS (
    SELECT l.id FROM :"schema".lease AS l WHERE l.expires_at > clock_timestamp()
), gap AS (
    SELECT coalesce(lag(l.id) OVER (ORDER BY l.id), 0) AS low, l.id AS high FROM living AS l
    UNION ALL
    SELECT coalesce(max(l.id), 0), 9223372036854775807 FROM living AS l
), lost AS (
    SELECT j.id, j.lease, j.attempted_at
      FROM gap AS g
     CROSS JOIN LATERAL (
           SELECT r.id, r.lease, r.attempted_at FROM :"schema".job AS r
            WHERE r.state = 'running' AND r.lease > g.low AND r.lease < g.high
            LIMIT $1) AS j
     LIMIT $1
)
SELECT d.worker, count(*)::integer AS jobs, min(l.id) AS example,
       -- The end of a lease that was swept is unknown: the start of the attempt is the best estimate.
       max(extract(epoch FROM clock_timestamp() - coalesce(d.expires_at, l.attempted_at)))::double precision AS seconds
  FROM lost AS l
  LEFT JOIN :"schema".lease AS d ON d.id = l.lease
 GROUP BY d.worker
 ORDER BY jobs DESC;

-- name: examine_overdue_jobs
-- Count scheduled jobs that are due and that nobody has made ready, at most $1.
SELECT count(*)::integer AS jobs,
       extract(epoch FROM clock_timestamp() - min(o.run_at))::double precision AS seconds
  FROM (SELECT j.run_at FROM :"schema".job AS j
         WHERE j.state = 'scheduled' AND j.run_at <= clock_timestamp()
         ORDER BY j.run_at
         LIMIT $1) AS o;

-- name: examine_overtime_jobs
-- Return running jobs that should have been ended: past their timeout by more than a grace. $1 is the grace in seconds,
-- $2 how many to read at most.
SELECT o.task, o.worker, count(*)::integer AS jobs, min(o.id) AS example, max(o.over) AS seconds
  FROM (
    SELECT j.id, j.task, l.worker,
           extract(epoch FROM clock_timestamp() - j.attempted_at)::double precision - j.timeout AS over
      FROM (SELECT r.id, r.task, r.lease, r.attempted_at, r.timeout
              FROM :"schema".job AS r WHERE r.state = 'running' AND r.lease > 0 LIMIT $2) AS j
      LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  ) AS o
 WHERE o.over > $1::double precision
 GROUP BY o.task, o.worker
 ORDER BY jobs DESC
 LIMIT 20;

-- name: examine_owner
-- Return who owns the history, and whether we may do what its owner may: create and drop partitions.
SELECT pg_get_userbyid(c.relowner)::text AS owner, current_user::text AS role,
       pg_has_role(c.relowner, 'USAGE') AS ours,
       has_schema_privilege(n.oid, 'CREATE') AS creates
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = 'job_history';

-- name: examine_partitions
-- Return the first day without a history partition that settles will need. $1 is the schema, $2 how many days to look
-- ahead. A job that ends in `ahead` days and is kept for `days` is removed on `day`. `apart` says that a table with that
-- name exists and is not attached, and `parent` to which other table it belongs, if any.
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

-- name: examine_ready_jobs
-- Count jobs that wait to be claimed, by queue and task: for each queue the first ones, at most $1.
-- A skip scan of the ready index finds the queues: one step for each queue, not for each job.
WITH RECURSIVE line AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > l.queue ORDER BY j.queue LIMIT 1)
      FROM line AS l WHERE l.queue IS NOT NULL
)
SELECT w.queue, w.task, count(*)::integer AS jobs, min(w.id) AS example,
       extract(epoch FROM clock_timestamp() - min(w.ready_at))::double precision AS seconds,
       extract(epoch FROM clock_timestamp() - min(q.paused_at))::double precision AS paused
  FROM (SELECT l.queue FROM line AS l WHERE l.queue IS NOT NULL LIMIT 500) AS l
 CROSS JOIN LATERAL (
       SELECT j.id, j.queue, j.task, j.ready_at FROM :"schema".job AS j
        WHERE j.state = 'ready' AND j.queue = l.queue
        ORDER BY j.lane, j.priority DESC, j.ready_at, j.id
        LIMIT $1) AS w
  LEFT JOIN :"schema".queue AS q ON q.name = w.queue
 GROUP BY w.queue, w.task
 ORDER BY w.queue, jobs DESC;

-- name: examine_rights
-- Return which of these privileges the role lacks. $1 is the schema; $2 and $3 are tables, views or sequences and the
-- privilege needed on each; $4 are functions. Objects that do not exist are not reported, since no right is missing.
-- The catalogs are read by name, because to_regclass fails without the right to the schema.
WITH schema AS (
    SELECT n.oid, n.nspname FROM pg_namespace AS n WHERE n.nspname = $1
)
SELECT 'schema' AS kind, s.nspname::text AS name, 'USAGE' AS privilege
  FROM schema AS s
 WHERE NOT has_schema_privilege(s.oid, 'USAGE')
UNION ALL
SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text, w.privilege
  FROM schema AS s
  JOIN pg_class AS c ON c.relnamespace = s.oid
  JOIN unnest($2::text[], $3::text[]) AS w (name, privilege) ON w.name = c.relname
 WHERE NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, w.privilege)
                          ELSE has_table_privilege(c.oid, w.privilege) END
UNION ALL
SELECT 'function', format('%I.%I(%s)', s.nspname, p.proname, oidvectortypes(p.proargtypes)), 'EXECUTE'
  FROM schema AS s
  JOIN pg_proc AS p ON p.pronamespace = s.oid
 WHERE p.proname = ANY ($4::text[]) AND NOT has_function_privilege(p.oid, 'EXECUTE')
 ORDER BY 1, 2, 3;

-- name: examine_schedules
-- Return schedules with a problem: no running worker declares it or has its task, or its tick is overdue, for so many
-- seconds. Paused schedules are left out. $1 is how many to return at most.
WITH known AS MATERIALIZED (
    SELECT l.info -> 'schedules' AS schedules, l.info -> 'tasks' AS tasks FROM :"schema".lease AS l
     WHERE l.expires_at > clock_timestamp() AND l.kind = 'worker'
), seen AS (
    SELECT s.name, s.request ->> 'task' AS task,
           s.declared IS NULL OR EXISTS (SELECT FROM known AS k WHERE k.schedules ? s.name) AS is_active,
           -- A worker that does not list its tasks is not Penstock's own, and may have any task.
           EXISTS (SELECT FROM known AS k WHERE (k.tasks ? (s.request ->> 'task')) IS NOT FALSE) AS has_task,
           coalesce(extract(epoch FROM clock_timestamp() - s.next_at), 0)::double precision AS overdue
      FROM :"schema".schedule AS s
     WHERE s.paused_at IS NULL AND EXISTS (SELECT FROM known)
)
SELECT name, task, is_active, has_task, overdue FROM seen
 WHERE NOT is_active OR NOT has_task OR overdue > 0
 ORDER BY name
 LIMIT $1::integer;

-- name: examine_server
-- Return the server's version and state, and our role.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::integer / 10000 AS major,
       pg_is_in_recovery() AS standby,
       current_database()::text AS database,
       current_user::text AS role;

-- name: examine_settings
-- Return settings as a new connection of this role would have them, without those of this transaction.
SELECT s.name, s.reset_val AS value, session_user::text AS role
  FROM pg_settings AS s
 WHERE s.name = ANY ($1::text[])
 ORDER BY s.name;

-- name: examine_snapshots
-- Return what keeps vacuum from removing dead rows of this database, the oldest first.
--
-- A session does so while it has a snapshot or a transaction id, not merely by being open. Of other databases, only standbys
-- and replication slots count. A VACUUM does not hold itself back.
SELECT h.kind, h.pid, h.name, h.role, h.application, h.state, h.seconds, h.transactions, h.query
  FROM (
    SELECT 'session' AS kind, a.pid, NULL::text AS name, a.usename::text AS role, a.application_name AS application,
           a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds,
           greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions,
           left(regexp_replace(a.query, '\s+', ' ', 'g'), 200) AS query
      FROM pg_stat_activity AS a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
       AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
       AND a.query NOT ILIKE 'vacuum%'
    UNION ALL
    SELECT 'prepared', NULL, p.gid, p.owner::text, NULL, 'prepared',
           extract(epoch FROM clock_timestamp() - p.prepared), age(p.transaction), NULL
      FROM pg_prepared_xacts AS p
     WHERE p.database = current_database()
    UNION ALL
    SELECT 'slot', s.active_pid, s.slot_name::text, NULL, NULL,
           CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, age(s.xmin), NULL
      FROM pg_replication_slots AS s
     WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', r.pid, host(r.client_addr), r.usename::text, r.application_name, r.state, NULL,
           age(r.backend_xmin), NULL
      FROM pg_stat_replication AS r
     WHERE r.backend_xmin IS NOT NULL
  ) AS h
 ORDER BY h.transactions DESC
 LIMIT 20;

-- name: examine_stuck_jobs
-- Count jobs that were put back because no worker could run them, by reason. $1 is how many to read at most.
-- They are retried at least every ten minutes, so they are among the jobs due by then.
SELECT s.queue, s.task, s.reason, count(*)::integer AS jobs, min(s.id) AS example,
       max(s.seconds) AS seconds,
       (array_agg(s.message ORDER BY s.id) FILTER (WHERE s.message IS NOT NULL))[1] AS message
  FROM (
    SELECT j.id, j.queue, j.task, coalesce(j.reason, 'unknown') AS reason, j.stuck_since,
           extract(epoch FROM clock_timestamp() - j.stuck_since)::double precision AS seconds,
           left(j.errors -> -1 ->> 'message', 300) AS message
      FROM :"schema".job AS j
     WHERE j.state = 'scheduled' AND j.run_at <= clock_timestamp() + interval '15 minutes'
     ORDER BY j.run_at
     LIMIT $1
  ) AS s
 WHERE s.stuck_since IS NOT NULL
 GROUP BY s.queue, s.task, s.reason
 ORDER BY jobs DESC;

-- name: examine_unwritten
-- Return how many outcomes running workers cannot write, because of which they claim nothing, and the class of the error.
-- No row if there are none.
SELECT sum((l.info #>> '{unwritten,jobs}')::integer)::integer AS jobs, min(l.info #>> '{unwritten,error}') AS error
  FROM :"schema".lease AS l
 WHERE l.expires_at > statement_timestamp() AND jsonb_typeof(l.info -> 'unwritten') = 'object'
   AND NOT coalesce((l.info #>> '{unwritten,is_claiming}')::boolean, false)
HAVING count(*) > 0;

-- name: examine_waiting_jobs
-- Return some of the jobs that wait or are due within a day, with their arguments. $1 is how many to read of either, $2 how
-- many to return for each task, queue and version of arguments.
SELECT w.id, w.task, w.queue, w.args, w.args_version, w.jobs
  FROM (
    SELECT j.id, j.task, j.queue, j.args, j.args_version,
           count(*) OVER (PARTITION BY j.task, j.queue)::integer AS jobs,
           row_number() OVER (PARTITION BY j.task, j.queue, j.args_version ORDER BY j.id) AS nth
      FROM (
        (SELECT r.id, r.task, r.queue, r.args, r.args_version FROM :"schema".job AS r
          WHERE r.state = 'ready'
          ORDER BY r.queue, r.lane, r.priority DESC, r.ready_at, r.id LIMIT $1)
        UNION ALL
        (SELECT s.id, s.task, s.queue, s.args, s.args_version FROM :"schema".job AS s
          WHERE s.state = 'scheduled' AND s.run_at <= clock_timestamp() + interval '1 day'
          ORDER BY s.run_at LIMIT $1)
      ) AS j
  ) AS w
 WHERE w.nth <= $2
 ORDER BY w.task, w.id;

-- name: find_lock_holders
-- Return sessions whose locks keep others from altering the queue's tables, the oldest first: vacuums, index builds,
-- migrations, sessions that have locked a table by hand. $1 is the schema.
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
