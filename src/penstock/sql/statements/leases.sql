-- name: open_lease
-- Begin a worker session.
SELECT :"schema".open_lease_v1($1, $2, $3);

-- name: heartbeat
-- Renew a lease; what its worker must be told comes back.
SELECT alive, signals FROM :"schema".heartbeat_v1($1, $2, $3);

-- name: release
-- Give back the running jobs of a lease that its worker does not know.
SELECT :"schema".release_v1($1, $2);

-- name: close_lease
-- End a worker session; its unfinished jobs are ready again.
SELECT :"schema".close_lease_v1($1);

-- name: elect
-- Become or stay leader.
SELECT :"schema".elect_v1($1, $2, $3);

-- name: rescue
-- Take jobs back from lost workers.
SELECT id, lost FROM :"schema".rescue_v1($1);

-- name: rescue_overtime
-- Take back jobs that outlived their timeout under a living lease.
SELECT id, lost FROM :"schema".rescue_overtime_v1($1, $2);
