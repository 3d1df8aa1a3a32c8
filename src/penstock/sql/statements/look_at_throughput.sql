-- name: look_at_throughput
-- What ended in the last seconds, minutes, hours, by task: how many, how long they waited, how long they ran.
--
-- $1 is the schema, $2 the windows in seconds, $3 how many blocks to read at most.
-- No index says when a job ended: every settle would pay for it. But all that ends on one day and is kept for
-- as long goes to one partition, and there to its end. So the last blocks of the partitions that are being
-- filled are read; a window that begins before what was read is shortened to that.
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
    -- Each gets its share, so that all of them reach back about as far.
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
