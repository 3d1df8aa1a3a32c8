-- What came of a schedule's last ticks, the newest first.
SELECT f.tick, f.kind, f.ticks, f.job::text AS job, f.why, f.fired_at, j.state
  FROM (SELECT f.tick, f.kind, f.ticks, f.job, f.why, f.fired_at FROM :"schema".schedule_fire AS f
         WHERE f.schedule = $1::text ORDER BY f.tick DESC LIMIT $2::integer) AS f
  LEFT JOIN :"schema".job_all AS j ON j.id = f.job
 ORDER BY f.tick DESC;
