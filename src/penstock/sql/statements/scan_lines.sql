-- name: scan_lines
-- The lines of a queue that have ready jobs; none while it is paused.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lines_v1($1, $2, $3) WHERE NOT :"schema".is_paused_v1($1);
