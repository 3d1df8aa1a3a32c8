-- Takes schedules away again; what they enqueued stays.
SELECT 1;
