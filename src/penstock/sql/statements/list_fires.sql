-- name: list_fires
-- What came of a schedule's last ticks, the newest first; a page begins behind the tick $3.
WITH fires AS MATERIALIZED (
    SELECT f.tick, f.kind, f.ticks, f.job, f.why, f.fired_at FROM :"schema".schedule_fire AS f
     WHERE f.schedule = $1::text AND ($3::timestamptz IS NULL OR f.tick < $3::timestamptz) ORDER BY f.tick DESC LIMIT $2::integer
)
SELECT f.tick, f.kind, f.ticks, f.job::text AS job, f.why, f.fired_at, j.state
  FROM fires AS f
  LEFT JOIN :"schema".find_jobs_v1(ARRAY(SELECT o.job FROM fires AS o WHERE o.job IS NOT NULL)) AS j ON j.id = f.job
 ORDER BY f.tick DESC;
