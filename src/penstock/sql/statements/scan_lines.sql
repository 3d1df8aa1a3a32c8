-- The lines of a queue that have ready jobs.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lines_v1($1, $2);
