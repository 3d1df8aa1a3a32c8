-- Schedules: what enqueues by interval or cron.
SELECT 1;
