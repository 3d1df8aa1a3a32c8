-- The lines of a queue that have ready jobs; none while it is paused.
SELECT lane, priority, ready_at, id FROM :"schema".scan_lines_v1($1, $2)
 WHERE NOT EXISTS (SELECT FROM :"schema".queue AS q WHERE q.name = $1 AND q.paused_at IS NOT NULL);
