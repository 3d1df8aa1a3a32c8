-- name: scan_lanes
-- Return the lanes and priorities of a queue that have ready jobs; none while the queue is paused.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lanes_v1($1, $2, $3) WHERE NOT :"schema".is_queue_paused_v1($1);

-- name: read_rules
-- Return the settings that a worker needs for fair turns and limits.
SELECT :"schema".read_rules_v1($1::text[])::text AS rules;

-- name: list_paused_queues
-- Return the paused queues.
SELECT q.name FROM :"schema".queue AS q WHERE q.paused_at IS NOT NULL ORDER BY q.name;

-- name: list_unserved_queues
-- Return the queues whose jobs have been ready for some seconds, and that no running worker serves.
SELECT queue, seconds FROM :"schema".list_unserved_queues_v1($1::double precision);
