-- name: claim
-- Claim ready jobs of a queue for a lease, line by line.
SELECT id, token, task, args, args_version, attempt, failures, max_attempts, losses, timeout,
       lane, priority, tenant, ready_at, created_at, batch, suspect, extra
  FROM :"schema".claim_v1($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9);

-- name: scan_lines
-- The lines of a queue that have ready jobs; none while it is paused.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lines_v1($1, $2, $3) WHERE NOT :"schema".is_paused_v1($1);

-- name: mark_begun
-- Mark attempts of suspects as begun, before they begin.
SELECT token, marked FROM :"schema".mark_begun_v1($1, $2);

-- name: move
-- Put claimed jobs back, each into another lane.
SELECT :"schema".move_v1($1, $2, $3);

-- name: rules
-- What a worker must know to take turns and keep to limits.
SELECT :"schema".rules_v1($1::text[])::text AS rules;

-- name: rules_version
-- Whether settings have changed since they were read.
SELECT :"schema".rules_version_v1() AS version;

-- name: paused
-- The queues that are paused.
SELECT q.name FROM :"schema".queue AS q WHERE q.paused_at IS NOT NULL ORDER BY q.name;

-- name: unserved
-- The queues with jobs that have been ready for so many seconds, and that no living worker serves.
SELECT queue, seconds FROM :"schema".unserved_v1($1::double precision);
