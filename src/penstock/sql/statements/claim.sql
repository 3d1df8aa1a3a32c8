-- name: scan_lanes
-- The lines of a queue that have ready jobs; none while it is paused.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lanes_v1($1, $2, $3) WHERE NOT :"schema".is_queue_paused_v1($1);

-- name: read_rules
-- What a worker must know to take turns and keep to limits.
SELECT :"schema".read_rules_v1($1::text[])::text AS rules;

-- name: list_paused_queues
-- The queues that are paused.
SELECT q.name FROM :"schema".queue AS q WHERE q.paused_at IS NOT NULL ORDER BY q.name;

-- name: list_unserved_queues
-- The queues with jobs that have been ready for so many seconds, and that no living worker serves.
SELECT queue, seconds FROM :"schema".list_unserved_queues_v1($1::double precision);
