-- Remove events whose time is over, and waits of jobs that have ended.
SELECT events, waits FROM :"schema".sweep_events_v1($1);
