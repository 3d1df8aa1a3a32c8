-- name: heartbeat
-- Renew a lease; what its worker must be told comes back.
SELECT alive, signals FROM :"schema".heartbeat_v1($1, $2, $3);
