-- Let workers claim from a queue again, and have them look.
WITH resumed AS (
    UPDATE :"schema".queue AS q SET paused_at = NULL, updated_at = statement_timestamp()
     WHERE q.name = $1::text AND q.paused_at IS NOT NULL
    RETURNING q.name
)
SELECT :"schema".notify_ready_v1(r.name, NULL, 0::smallint, statement_timestamp()) FROM resumed AS r;
