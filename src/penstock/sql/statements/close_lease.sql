-- name: close_lease
-- End a worker session; its unfinished jobs are ready again.
SELECT :"schema".close_lease_v1($1);
