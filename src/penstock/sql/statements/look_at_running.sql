-- name: look_at_running
-- The jobs that have been running for longest, with their workers and how far they are.
-- $1 is how many. Of more running jobs than $2 only some are looked at: nothing orders them by time.
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
