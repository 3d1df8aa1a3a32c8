-- name: sync_schedules
-- Write the schedules that the code declares; the names of those that have changed.
SELECT name FROM :"schema".sync_schedules_v1($1::text::jsonb) AS name;
