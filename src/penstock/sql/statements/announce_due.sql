-- name: announce_due
-- Tell the promoter that something is due in some seconds.
SELECT :"schema".notify_due_v1(clock_timestamp() + make_interval(secs => $1));
