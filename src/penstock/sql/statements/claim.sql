-- name: claim
-- Claim ready jobs of a queue for a lease, line by line.
SELECT id, token, task, args, args_version, attempt, failures, max_attempts, losses, timeout,
       lane, priority, tenant, ready_at, created_at, batch, suspect, extra
  FROM :"schema".claim_v1($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9);
