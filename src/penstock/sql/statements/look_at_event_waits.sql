-- name: look_at_event_waits
-- Which events a job waits for, and until when.
SELECT w.name, w.until FROM :"schema".event_wait AS w WHERE w.job = $1 ORDER BY w.step;
