-- name: open_lease
-- Begin a worker's session.
SELECT :"schema".open_lease_v1($1, $2, $3);
