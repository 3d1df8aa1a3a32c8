-- name: get_depths
-- Return the depths of queues, for a gauge: how many jobs are in each state, and how long the oldest ready one has waited.
-- $1 is how far to count: ready jobs in each queue, others over all queues together.
-- Of the queues with ready jobs, the first $2 by name are counted.
-- A skip scan finds the queues that have ready jobs: one step for each queue, not for each job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
)
SELECT n.queue, 'ready' AS state, c.jobs,
       extract(epoch FROM statement_timestamp() - l.oldest)::double precision AS waited
  FROM (SELECT m.queue FROM name AS m WHERE m.queue IS NOT NULL LIMIT $2::integer) AS n
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'ready' AND j.queue = n.queue
                LIMIT $1::integer) AS few) AS c
 CROSS JOIN LATERAL (
       SELECT min(s.ready_at) AS oldest FROM :"schema".scan_lanes_v1(n.queue, '', 100) AS s) AS l
UNION ALL
SELECT r.queue, 'running', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'running' LIMIT $1::integer) AS r GROUP BY r.queue
UNION ALL
SELECT s.queue, 'scheduled', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'scheduled' ORDER BY j.run_at LIMIT $1::integer) AS s
 GROUP BY s.queue
UNION ALL
SELECT b.queue, 'blocked', count(*), NULL
  FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'blocked' ORDER BY j.queue LIMIT $1::integer) AS b
 GROUP BY b.queue;

-- name: get_event_waits
-- Return which events a job waits for, and until when.
SELECT w.name, w.until FROM :"schema".event_wait AS w WHERE w.job = $1 ORDER BY w.step;

-- name: get_failures
-- Return the last $1 failed jobs, newest first, each with its last error.
SELECT h.id, h.task, h.queue, h.tenant, h.reason, h.attempt, h.finished_at,
       extract(epoch FROM statement_timestamp() - h.finished_at)::double precision AS seconds_ago,
       h.errors -> -1 ->> 'type' AS error_type,
       left(h.errors -> -1 ->> 'message', 500) AS error_message
  FROM :"schema".job_history AS h
 WHERE h.state = 'failed'
 ORDER BY h.finished_at DESC
 LIMIT $1::integer;

-- name: get_lanes
-- Return the lanes of a queue that have ready or running jobs or settings, the largest first.
-- $1 is the queue, $2 the lane to begin with, $3 how many pairs of lane and priority to find, $4 how many lanes to return,
-- $5 how far to count the jobs of one, $6 how many jobs to count before it is known which lanes are the largest, $7 how
-- many running jobs to read. A skip scan finds the lanes: one step for each lane and priority, not for each job.
WITH line AS MATERIALIZED (
    SELECT s.lane, s.priority, s.ready_at FROM :"schema".scan_lanes_v1($1::text, $2::text, $3::integer + 1) AS s
), scanned AS (
    SELECT count(*) AS lines, count(*) <= $3::integer AS is_whole, max(l.lane) AS last FROM line AS l
), run AS MATERIALIZED (
    SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j WHERE j.state = 'running'
     ORDER BY j.lease LIMIT $7::integer + 1
), running AS (
    SELECT r.lane, count(*) AS jobs, count(d.late) AS late
      FROM run AS r
     CROSS JOIN LATERAL :"schema".lateness_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d
     WHERE r.queue = $1::text AND r.lane >= $2::text
     GROUP BY r.lane
), lane AS (
    SELECT l.lane, min(l.ready_at) AS oldest FROM line AS l CROSS JOIN scanned AS c
     -- If the scan was cut off, its last lane may be incomplete.
     WHERE c.is_whole OR l.lane < c.last OR c.lines = 1
     GROUP BY l.lane
), known AS (
    SELECT u.lane, max(u.oldest) AS oldest
      FROM (SELECT l.lane, l.oldest FROM lane AS l
            UNION ALL SELECT r.lane, NULL FROM running AS r
            UNION ALL (SELECT s.lane, NULL FROM :"schema".lane_setting AS s
                        WHERE s.queue = $1::text AND s.lane >= $2::text AND NOT EXISTS (
                              SELECT FROM lane AS l WHERE split_part(l.lane, E'\x1f', 1) = s.lane)
                        ORDER BY s.lane LIMIT 1000)) AS u
     GROUP BY u.lane
), largest AS (
    SELECT k.lane, k.oldest, f.jobs AS about
      FROM known AS k
     CROSS JOIN (SELECT least(greatest($6::integer / greatest(count(*), 1), 1), $5::integer) AS most FROM lane) AS m
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs
             FROM (SELECT FROM :"schema".job AS j
                    WHERE j.state = 'ready' AND j.queue = $1::text AND j.lane = k.lane
                    ORDER BY j.priority DESC, j.ready_at, j.id LIMIT m.most) AS few) AS f
     ORDER BY f.jobs DESC, k.oldest, k.lane
     LIMIT $4::integer
)
SELECT g.lane, c.jobs AS ready, c.late + coalesce(x.late, 0) AS late, coalesce(x.jobs, 0) AS running,
       extract(epoch FROM statement_timestamp() - g.oldest)::double precision AS waited,
       coalesce(s.weight, p.weight, 1) AS weight, s.paused_at,
       w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open, v.changes_in AS queue_changes_in,
       (SELECT count(*) FROM known) AS lanes, n.is_whole, CASE WHEN NOT n.is_whole THEN n.last END AS following,
       (SELECT count(*) FROM run) AS running_seen
  FROM largest AS g
 CROSS JOIN scanned AS n
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs, count(d.late) AS late
         FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
                WHERE j.state = 'ready' AND j.queue = $1::text AND j.lane = g.lane
                ORDER BY j.priority DESC, j.ready_at, j.id LIMIT $5::integer + 1) AS r
        CROSS JOIN LATERAL :"schema".lateness_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d) AS c
  LEFT JOIN :"schema".queue AS q ON q.name = $1::text
  LEFT JOIN running AS x ON x.lane = g.lane
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = $1::text AND s.lane = split_part(g.lane, E'\x1f', 1)
  LEFT JOIN :"schema".tenant_setting AS t
         ON t.tenant = split_part(g.lane, E'\x1f', 1) AND q.fair AND coalesce(q.lane_key, 'tenant') = 'tenant'
  LEFT JOIN :"schema".plan AS p ON p.name = t.plan
 CROSS JOIN LATERAL :"schema".check_windows_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".check_windows_v1(q.windows, statement_timestamp()) AS v
 ORDER BY c.jobs DESC, g.oldest, g.lane;

-- name: get_late_jobs
-- Return the jobs that are past their soft deadline, the latest first, and by how many seconds.
-- $1 is how many to return, $2 how many to read of each lane and priority, of running and of due jobs; $3 to $8 are
-- filters. A lane is read from its oldest job on, and only the first 10,000 pairs of lane and priority are.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.priority
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lanes_v1(n.queue, '', 10000) AS s
     WHERE n.queue = coalesce($4::text, n.queue)
     LIMIT 10000
), found AS (
    SELECT f.id, f.queue, f.lane, f.state, f.task, f.tenant, f.subject, f.tags, f.run_at
      FROM line AS l
     CROSS JOIN LATERAL (
           SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
            WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane AND j.priority = l.priority
            ORDER BY j.ready_at, j.id LIMIT greatest($2::integer / greatest((SELECT count(*) FROM line), 1), $1::integer)) AS f
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'running' ORDER BY j.lease LIMIT $2::integer)
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'scheduled' AND j.run_at < statement_timestamp() ORDER BY j.run_at LIMIT $2::integer)
)
SELECT f.id, d.late
  FROM found AS f
 CROSS JOIN LATERAL :"schema".lateness_v1(f.queue, f.lane, f.tenant, f.run_at, statement_timestamp()) AS d
 WHERE d.late IS NOT NULL
   AND ($3::text[] IS NULL OR f.state = ANY ($3::text[]))
   AND ($4::text IS NULL OR f.queue = $4::text)
   AND ($5::text IS NULL OR f.task = $5::text)
   AND ($6::text IS NULL OR f.tenant = $6::text)
   AND ($7::text IS NULL OR f.subject = $7::text)
   AND ($8::text IS NULL OR $8::text = ANY (f.tags))
 ORDER BY d.late DESC, f.id
 LIMIT $1::integer;

-- name: get_lateness
-- Return by how many seconds each of these jobs is past its soft deadline; jobs that are not late are left out.
SELECT j.id, d.late
  FROM :"schema".job AS j
 CROSS JOIN LATERAL :"schema".lateness_v1(j.queue, j.lane, j.tenant, j.run_at, statement_timestamp()) AS d
 WHERE j.id = ANY ($1::bigint[]) AND d.late IS NOT NULL;

-- name: get_limits
-- Return limits, and every key under them that workers hold or want slots of, or that has a bucket: keys that hold up jobs
-- first. $1 are the keys to read, NULL for all; $2 is how many to return; $3 how many pairs of lane and priority with ready
-- jobs to read, and $4 how many jobs to count in them, if all keys are read: workers do not request slots of a limit of 0.
-- A page begins after the key $5, in the present order.
-- The limit of a key is its own, or that of the longest pattern: see get_limit_v1.
WITH RECURSIVE pattern AS MATERIALIZED (
    SELECT s.key, left(s.key, -1) AS prefix FROM :"schema".limit_setting AS s WHERE right(s.key, 1) = '*'
), name AS (
    (SELECT j.queue FROM :"schema".job AS j
      WHERE j.state = 'ready' AND $1::text[] IS NULL AND EXISTS (SELECT FROM :"schema".limit_setting)
      ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lanes_v1(n.queue, '', $3::integer + 1) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $3::integer + 1
), lane AS MATERIALIZED (
    SELECT l.queue, l.lane, sum(count(*)) OVER () > $3::integer AS is_cut,
           greatest($4::integer / count(*) OVER (), 1) AS most
      FROM line AS l GROUP BY l.queue, l.lane
), ready AS MATERIALIZED (
    SELECT l.queue, l.lane, least(f.jobs, l.most) AS jobs, f.jobs > l.most OR l.is_cut AS is_cut
      FROM lane AS l
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs
             FROM (SELECT FROM :"schema".job AS j
                    WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane
                    ORDER BY j.priority DESC, j.ready_at, j.id LIMIT l.most + 1) AS few) AS f
), kept_to AS MATERIALIZED (
    SELECT r.queue, r.lane, k.key
      FROM ready AS r
     CROSS JOIN LATERAL (
           VALUES ('queue:' || r.queue), ('lane:' || r.queue || ':' || split_part(r.lane, E'\x1f', 1))
           UNION SELECT unnest((string_to_array(r.lane, E'\x1f'))[2:])) AS k (key)
), held AS (
    SELECT g.key, sum(g.slots)::integer AS granted, sum(greatest(g.wanted - g.slots, 0))::integer AS wanting
      FROM :"schema"."grant" AS g
      JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
     WHERE $1::text[] IS NULL OR g.key = ANY ($1::text[])
     GROUP BY g.key
), known AS (
    SELECT s.key, true AS is_shown FROM :"schema".limit_setting AS s WHERE $1::text[] IS NULL
    UNION ALL SELECT h.key, true FROM held AS h
    UNION ALL SELECT b.key, true FROM :"schema".bucket AS b WHERE $1::text[] IS NULL
    UNION ALL SELECT k.key, true FROM unnest($1::text[]) AS k (key)
    UNION ALL SELECT k.key, false FROM kept_to AS k
), ruled AS MATERIALIZED (
    SELECT k.key, k.is_shown, coalesce(s.key, p.key) AS rule
      FROM (SELECT u.key, bool_or(u.is_shown) AS is_shown FROM known AS u GROUP BY u.key) AS k
      LEFT JOIN :"schema".limit_setting AS s ON s.key = k.key
      LEFT JOIN LATERAL (
           SELECT t.key FROM pattern AS t WHERE starts_with(k.key, t.prefix)
            ORDER BY length(t.key) DESC LIMIT 1) AS p ON s.key IS NULL
), waiting AS (
    -- Jobs of keys that match a pattern wait for it too: each lane counts once, however many of its keys match.
    SELECT u.key, sum(r.jobs)::bigint AS ready, bool_or(r.is_cut) AS is_cut
      FROM (SELECT t.queue, t.lane, t.key FROM kept_to AS t
            UNION SELECT t.queue, t.lane, k.rule FROM kept_to AS t JOIN ruled AS k ON k.key = t.key) AS u
      JOIN ready AS r ON r.queue = u.queue AND r.lane = u.lane
     GROUP BY u.key
), state AS (
    SELECT k.key, k.rule, s.slots, s.rate, s.burst, coalesce(h.granted, 0) AS granted,
           coalesce(h.wanting, 0) AS wanting, coalesce(w.ready, 0) AS ready, coalesce(w.is_cut, false) AS is_cut,
           CASE WHEN b.closed_until > statement_timestamp() THEN b.closed_until END AS closed_until,
           CASE WHEN s.rate IS NOT NULL AND right(k.key, 1) <> '*' THEN least(s.burst, coalesce(
               b.level + s.rate * greatest(extract(epoch FROM statement_timestamp() - b.filled_at), 0), s.burst))
           END::double precision AS level
      FROM ruled AS k
      LEFT JOIN :"schema".limit_setting AS s ON s.key = k.rule
      LEFT JOIN held AS h ON h.key = k.key
      LEFT JOIN waiting AS w ON w.key = k.key
      LEFT JOIN :"schema".bucket AS b ON b.key = k.key
     WHERE k.is_shown AND (k.rule IS NOT NULL OR h.key IS NOT NULL AND $1::text[] IS NULL)
), ranked AS MATERIALIZED (
    SELECT c.*, count(*) OVER () AS keys,
           row_number() OVER (
               ORDER BY c.wanting > 0 OR c.ready > 0 AND (
                            c.granted >= c.slots AND (c.slots = 0 OR right(c.key, 1) <> '*')
                            OR c.closed_until IS NOT NULL OR c.level < 1) IS TRUE DESC,
                        c.closed_until IS NOT NULL DESC, c.granted > 0 DESC, c.key) AS place
      FROM state AS c
), chosen AS (
    SELECT r.* FROM ranked AS r
     WHERE $5::text IS NULL OR r.place > (SELECT a.place FROM ranked AS a WHERE a.key = $5::text)
     ORDER BY r.place
     LIMIT $2::integer
)
SELECT c.key, c.rule, c.slots, c.rate, c.burst, c.granted, c.wanting, c.closed_until, c.keys, c.level,
       CASE WHEN $1::text[] IS NULL THEN c.ready END AS ready, c.is_cut, coalesce(w.workers, '[]')::text AS workers
  FROM chosen AS c
 CROSS JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('worker', f.worker, 'slots', f.slots, 'wanted', f.wanted)
                        ORDER BY f.slots DESC, f.worker) AS workers
         FROM (SELECT l.worker, g.slots, g.wanted
                 FROM :"schema"."grant" AS g
                 JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
                WHERE g.key = c.key
                ORDER BY g.slots DESC, l.worker LIMIT 100) AS f) AS w
 ORDER BY c.place;

-- name: get_own_progress
-- Return the state of a live job ($1) that a tenant may see: the lease under which it runs, and its progress.
SELECT l.worker, coalesce(l.expires_at > statement_timestamp(), false) AS is_alive, p.done, p.total, p.message,
       NULL::double precision AS late_after, NULL::double precision AS late, statement_timestamp() AS at
  FROM (SELECT $1::bigint AS id) AS g
  LEFT JOIN :"schema".job AS j ON j.id = g.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  LEFT JOIN :"schema".progress AS p ON p.job = g.id;

-- name: get_job_progress
-- Return the state of a live job ($1): the lease under which it runs, its progress, and whether it is late.
SELECT l.worker, coalesce(l.expires_at > statement_timestamp(), false) AS is_alive, p.done, p.total, p.message,
       d.late_after, d.late, statement_timestamp() AS at
  FROM (SELECT $1::bigint AS id) AS g
  LEFT JOIN :"schema".job AS j ON j.id = g.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  LEFT JOIN :"schema".progress AS p ON p.job = g.id
 CROSS JOIN LATERAL :"schema".lateness_v1(j.queue, j.lane, j.tenant, j.run_at, statement_timestamp()) AS d;

-- name: get_queues
-- Return what waits and runs in each queue: bounded counts, and how long the oldest job has waited.
-- $1 is how far to count; late jobs are counted among those. Of the queues with ready jobs, the first $2 by name are
-- returned, and those in $4; up to $3 are counted. A page begins after $5 and has up to $6 queues of any kind: the first by
-- name or, with $7, busy queues before those that only have settings.
-- A skip scan finds the queues that have ready jobs: one step for each queue, not for each job.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' AND j.queue > coalesce($5::text, '')
      ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), named AS (
    SELECT p.queue, min(p.rank) AS rank
      FROM (SELECT f.queue, 0 AS rank FROM (SELECT m.queue FROM name AS m WHERE m.queue IS NOT NULL LIMIT $2::integer) AS f
            UNION ALL SELECT queue, 0 FROM running
            UNION ALL SELECT queue, 1 FROM scheduled UNION ALL SELECT queue, 1 FROM blocked
            UNION ALL SELECT name, 2 FROM :"schema".queue
            UNION ALL SELECT unnest($4::text[]), 2) AS p
     WHERE p.queue > coalesce($5::text, '')
     GROUP BY p.queue
), page AS (
    SELECT n.queue, count(*) OVER () AS in_all
      FROM named AS n
     ORDER BY CASE WHEN $7::boolean THEN n.rank END, n.queue LIMIT $6::integer
), ready AS (
    SELECT n.queue, n.in_all, c.jobs, c.late, l.oldest
      FROM page AS n
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs, count(d.late) AS late
             FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j
                    WHERE j.state = 'ready' AND j.queue = n.queue
                    ORDER BY j.lane, j.priority DESC, j.ready_at, j.id LIMIT $1::integer + 1) AS r
            CROSS JOIN LATERAL :"schema".lateness_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d) AS c
     CROSS JOIN LATERAL (
           SELECT min(s.ready_at) AS oldest FROM :"schema".scan_lanes_v1(n.queue, '', 100) AS s) AS l
), scheduled AS (
    SELECT s.queue, count(*) AS jobs, count(d.late) AS late, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j WHERE j.state = 'scheduled'
             ORDER BY j.run_at LIMIT $1::integer + 1) AS s
     CROSS JOIN LATERAL :"schema".lateness_v1(s.queue, s.lane, s.tenant, s.run_at, statement_timestamp()) AS d
     GROUP BY s.queue
), blocked AS (
    SELECT b.queue, count(*) AS jobs, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'blocked'
             ORDER BY j.queue LIMIT $1::integer + 1) AS b
     GROUP BY b.queue
), running AS (
    SELECT r.queue, count(*) AS jobs, count(d.late) AS late, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j WHERE j.state = 'running'
             ORDER BY j.lease LIMIT $1::integer + 1) AS r
     CROSS JOIN LATERAL :"schema".lateness_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d
     GROUP BY r.queue
)
SELECT u.queue AS name, q.paused_at, coalesce(q.fair, false) AS fair, w.open, w.changes_in,
       coalesce(r.late, 0) + coalesce(s.late, 0) + coalesce(x.late, 0) AS late,
       coalesce(r.jobs, 0) AS ready, coalesce(s.jobs, 0) AS scheduled, coalesce(x.jobs, 0) AS running,
       coalesce(b.jobs, 0) AS blocked, coalesce((SELECT max(seen) FROM blocked), 0)::bigint AS blocked_in_all,
       coalesce((SELECT max(seen) FROM scheduled), 0)::bigint AS scheduled_in_all,
       coalesce((SELECT max(seen) FROM running), 0)::bigint AS running_in_all,
       extract(epoch FROM statement_timestamp() - r.oldest)::double precision AS waited,
       (SELECT count(*) FROM (SELECT FROM name AS m WHERE m.queue IS NOT NULL LIMIT $3::integer) AS few) AS ready_queues,
       u.in_all AS queues_in_all
  FROM ready AS u
  LEFT JOIN :"schema".queue AS q ON q.name = u.queue
  LEFT JOIN ready AS r ON r.queue = u.queue
  LEFT JOIN scheduled AS s ON s.queue = u.queue
  LEFT JOIN blocked AS b ON b.queue = u.queue
  LEFT JOIN running AS x ON x.queue = u.queue
 CROSS JOIN LATERAL :"schema".check_windows_v1(q.windows, statement_timestamp()) AS w
 ORDER BY u.queue;

-- name: get_running_jobs
-- Return the $1 jobs that have been running for longest, with their workers and progress.
-- If there are more than $2 running jobs, only some are read, because no index orders them by time.
SELECT s.id, s.task, s.queue, s.tenant, s.attempt, s.attempted_at AS started_at, l.worker,
       coalesce(l.expires_at > statement_timestamp(), false) AS is_alive,
       extract(epoch FROM statement_timestamp() - s.attempted_at)::double precision AS seconds,
       p.done, p.total, p.message
  FROM (SELECT r.id, r.lease, r.task, r.queue, r.tenant, r.attempt, r.attempted_at
          FROM (SELECT j.id, j.lease, j.task, j.queue, j.tenant, j.attempt, j.attempted_at
                  FROM :"schema".job AS j WHERE j.state = 'running'
                 ORDER BY j.lease LIMIT $2::integer) AS r
         ORDER BY r.attempted_at, r.id LIMIT $1::integer) AS s
  LEFT JOIN :"schema".lease AS l ON l.id = s.lease
  LEFT JOIN :"schema".progress AS p ON p.job = s.id
 ORDER BY s.attempted_at, s.id;

-- name: get_steps
-- Return what a job has saved, in order: its steps, sleeps, events and polls, and the size of each result.
SELECT s.kind, s.name, s.created_at, octet_length(s.result::text) AS size,
       CASE WHEN s.kind <> 'step' THEN s.result::text END AS result
  FROM :"schema".step AS s
 WHERE s.job = $1
 ORDER BY s.created_at, s.kind, s.name
 LIMIT $2;

-- name: get_throughput
-- Return the jobs that ended in some time windows, by task: how many, how long they waited, how long they ran.
--
-- $1 is the schema, $2 the windows in seconds, $3 how many blocks to read at most.
-- There is no index on the time when a job ended, since it would slow down every settle. But jobs that end on one day and
-- are kept for the same time are appended to one partition. So the last blocks of the partitions that are being filled are
-- read. A window that begins before these is shortened.
WITH kept AS (
    SELECT 7 AS days UNION SELECT 30 UNION SELECT r.days FROM :"schema".retention AS r
), day AS (
    SELECT d::date AS day
      FROM (SELECT max(w.seconds) AS seconds FROM unnest($2::double precision[]) AS w (seconds)) AS longest
     CROSS JOIN generate_series(
           date_trunc('day', (statement_timestamp() - make_interval(secs => longest.seconds)) AT TIME ZONE 'UTC'),
           statement_timestamp() AT TIME ZONE 'UTC', interval '1 day') AS d
), filled AS (
    SELECT DISTINCT f.expires_on, pg_relation_size(f.part) / current_setting('block_size')::integer AS blocks
      FROM (SELECT e.day AS expires_on,
                   to_regclass(format('%I.%I', $1::text, 'job_history_' || to_char(e.day, 'YYYYMMDD'))) AS part
              FROM day AS d CROSS JOIN kept AS k, :"schema".expires_on_v1(d.day, k.days) AS e (day)) AS f
     WHERE f.part IS NOT NULL
), part AS (
    -- Each partition gets its share of the blocks, so that all of them reach back about as far.
    SELECT f.expires_on, greatest(f.blocks - ceil($3::integer * f.blocks / sum(f.blocks) OVER ()), 0)::bigint AS start
      FROM filled AS f WHERE f.blocks > 0
), ended AS MATERIALIZED (
    SELECT p.expires_on, p.start, e.task, e.state, e.finished_at, e.waited, e.ran
      FROM part AS p
     CROSS JOIN LATERAL (
           SELECT h.task, h.state, h.finished_at,
                  extract(epoch FROM h.attempted_at - h.ready_at)::double precision AS waited,
                  extract(epoch FROM h.finished_at - h.attempted_at)::double precision AS ran
             FROM :"schema".job_history AS h
            WHERE h.expires_on = p.expires_on AND h.ctid >= format('(%s,0)', p.start)::tid
           OFFSET 0) AS e
), reached AS (
    SELECT max(b.since) AS since
      FROM (SELECT min(e.finished_at) AS since FROM ended AS e WHERE e.start > 0 GROUP BY e.expires_on) AS b
), span AS (
    SELECT w.seconds, greatest(statement_timestamp() - make_interval(secs => w.seconds), r.since) AS since
      FROM unnest($2::double precision[]) AS w (seconds) CROSS JOIN reached AS r
)
SELECT s.seconds AS "window", extract(epoch FROM statement_timestamp() - s.since)::double precision AS covered,
       e.task,
       count(*) FILTER (WHERE e.state = 'completed') AS completed,
       count(*) FILTER (WHERE e.state = 'failed') AS failed,
       count(*) FILTER (WHERE e.state = 'cancelled') AS cancelled,
       percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY e.waited) AS waited,
       percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY e.ran) AS ran,
       avg(e.ran) AS mean, max(e.finished_at) AS last_at
  FROM span AS s LEFT JOIN ended AS e ON e.finished_at >= s.since
 GROUP BY GROUPING SETS ((s.seconds, s.since), (s.seconds, s.since, e.task))
HAVING grouping(e.task) = 1 OR e.task IS NOT NULL
 ORDER BY s.seconds, grouping(e.task) DESC, count(*) DESC, e.task;

-- name: get_turn
-- Return what decides on a waiting job's turn: what holds its lane back, which lanes take turns, which jobs come before it.
-- $1 is the job, $2 how far to count.
SELECT s.paused_at, w.open AS lane_open, w.changes_in AS lane_changes_in, v.open AS queue_open,
       v.changes_in AS queue_changes_in, o.lanes, h.jobs + e.jobs AS ahead
  FROM :"schema".job AS j
  LEFT JOIN :"schema".queue AS q ON q.name = j.queue
  LEFT JOIN :"schema".lane_setting AS s ON s.queue = j.queue AND s.lane = split_part(j.lane, E'\x1f', 1)
 CROSS JOIN LATERAL :"schema".check_windows_v1(s.windows, statement_timestamp()) AS w
 CROSS JOIN LATERAL :"schema".check_windows_v1(q.windows, statement_timestamp()) AS v
 CROSS JOIN LATERAL (
       SELECT count(DISTINCT split_part(l.lane, E'\x1f', 1)) AS lanes
         FROM :"schema".scan_lanes_v1(j.queue, '', $2::integer + 1) AS l
        WHERE split_part(l.lane, E'\x1f', 1) <> split_part(j.lane, E'\x1f', 1)) AS o
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS b
                WHERE b.state = 'ready' AND b.queue = j.queue AND b.lane = j.lane AND b.priority > j.priority
                LIMIT $2::integer + 1) AS few) AS h
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS b
                WHERE b.state = 'ready' AND b.queue = j.queue AND b.lane = j.lane AND b.priority = j.priority
                  AND (b.ready_at, b.id) < (j.ready_at, j.id)
                LIMIT $2::integer + 1) AS few) AS e
 WHERE j.id = $1::bigint;

-- name: get_workers
-- Return all leases, including expired ones: their workers, running jobs and grants, and which one leads maintenance.
-- $1 is how far to count, $2 how many to return, valid ones first. All are counted, valid ones separately. A page begins
-- after the lease $3, in the present order.
WITH ranked AS MATERIALIZED (
    SELECT w.id, w.worker, w.kind, w.created_at, w.renewed_at, w.expires_at, w.info,
           count(*) OVER () AS in_all, count(*) FILTER (WHERE w.expires_at > statement_timestamp()) OVER () AS alive_in_all,
           row_number() OVER (ORDER BY w.expires_at > statement_timestamp() DESC, w.created_at, w.id) AS place
      FROM :"schema".lease AS w
), chosen AS MATERIALIZED (
    SELECT r.* FROM ranked AS r
     WHERE $3::bigint IS NULL OR r.place > (SELECT a.place FROM ranked AS a WHERE a.id = $3::bigint)
     ORDER BY r.place
     LIMIT $2::integer
)
SELECT l.id, l.worker AS name, l.kind, l.created_at AS started_at, l.renewed_at, l.expires_at,
       l.info::text AS info, coalesce(h.grants, '[]')::text AS grants,
       l.expires_at > statement_timestamp() AS is_alive, r.jobs AS running,
       extract(epoch FROM statement_timestamp() - l.renewed_at)::double precision AS silent,
       EXISTS (SELECT FROM :"schema".leader AS e
                WHERE e.role = 'maintenance' AND e.lease = l.id AND e.expires_at > statement_timestamp()) AS is_leader,
       l.in_all, l.alive_in_all, l.place
  FROM chosen AS l
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'running' AND j.lease = l.id
                LIMIT $1::integer + 1) AS few) AS r
 CROSS JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('key', f.key, 'slots', f.slots, 'wanted', f.wanted)
                        ORDER BY f.slots DESC, f.key) AS grants
         FROM (SELECT g.key, g.slots, g.wanted FROM :"schema"."grant" AS g WHERE g.lease = l.id
                ORDER BY g.slots DESC, g.key LIMIT 100) AS f) AS h
 ORDER BY l.created_at, l.id;
