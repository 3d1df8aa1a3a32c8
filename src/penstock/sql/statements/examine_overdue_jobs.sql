-- name: examine_overdue_jobs
-- Scheduled jobs whose time has come and that nobody has made ready. $1 is the most to count.
SELECT count(*)::integer AS jobs,
       extract(epoch FROM clock_timestamp() - min(o.run_at))::double precision AS seconds
  FROM (SELECT j.run_at FROM :"schema".job AS j
         WHERE j.state = 'scheduled' AND j.run_at <= clock_timestamp()
         ORDER BY j.run_at
         LIMIT $1) AS o;
