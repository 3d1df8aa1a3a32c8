-- name: sweep_events
-- Remove events whose time is over, and waits of jobs that have ended, from one job on.
SELECT events, waits, upto FROM :"schema".sweep_events_v1($1, $2);
