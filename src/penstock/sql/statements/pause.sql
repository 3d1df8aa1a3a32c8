-- name: pause
-- Let no worker claim from a queue any more, and note who did this ($2), if it is said.
WITH paused AS (
    INSERT INTO :"schema".queue AS q (name, paused_at) VALUES ($1::text, statement_timestamp())
    ON CONFLICT (name) DO UPDATE
       SET paused_at = coalesce(q.paused_at, excluded.paused_at), updated_at = statement_timestamp()
    RETURNING q.name
)
SELECT :"schema".note_v1($2::text, 'pause', NULL, p.name, NULL) FROM paused AS p WHERE $2::text IS NOT NULL;
