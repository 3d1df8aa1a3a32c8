-- name: tell_time
-- What time is it there?
SELECT clock_timestamp() AS now;
