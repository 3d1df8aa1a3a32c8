-- name: examine_waiting_jobs
-- Some of the jobs that wait or are due within a day, with their arguments. $1 is the most to look at of
-- either, $2 the most to show of each task, queue and version of arguments.
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
