-- name: look_at_queues
-- What waits and runs in each queue: the names in use, bounded counts, and since when the oldest waits.
-- $1 is how far to count; what is late is counted among those that were. Of the queues with ready jobs the first $2 by
-- name are shown, and those of $4; up to $3 are counted. A page begins behind $5 and has up to $6 queues of any kind:
-- the first by name or, with $7, the busy ones before those that only have settings.
-- A skip scan finds the queues that have ready jobs: one step a queue, not one a job.
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
            CROSS JOIN LATERAL :"schema".late_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d) AS c
     CROSS JOIN LATERAL (
           SELECT min(s.ready_at) AS oldest FROM :"schema".scan_lines_v1(n.queue, '', 100) AS s) AS l
), scheduled AS (
    SELECT s.queue, count(*) AS jobs, count(d.late) AS late, sum(count(*)) OVER () AS seen
      FROM (SELECT j.queue, j.lane, j.tenant, j.run_at FROM :"schema".job AS j WHERE j.state = 'scheduled'
             ORDER BY j.run_at LIMIT $1::integer + 1) AS s
     CROSS JOIN LATERAL :"schema".late_v1(s.queue, s.lane, s.tenant, s.run_at, statement_timestamp()) AS d
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
     CROSS JOIN LATERAL :"schema".late_v1(r.queue, r.lane, r.tenant, r.run_at, statement_timestamp()) AS d
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
 CROSS JOIN LATERAL :"schema".window_v1(q.windows, statement_timestamp()) AS w
 ORDER BY u.queue;
