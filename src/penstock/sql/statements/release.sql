-- name: release
-- Give back the running jobs of a lease that its worker does not know.
SELECT :"schema".release_v1($1, $2);
