-- Let workers claim from a queue again, and wake them.
WITH resumed AS (
    UPDATE :"schema".queue AS q SET paused_at = NULL, updated_at = statement_timestamp()
     WHERE q.name = $1::text AND q.paused_at IS NOT NULL
    RETURNING q.name
)
SELECT :"schema".notify_ready_v1(r.name, l.lane, l.priority, l.ready_at)
  FROM resumed AS r CROSS JOIN LATERAL :"schema".scan_lines_v1(r.name) AS l;
