-- name: resume
-- Let workers claim from a queue again, and have them look; who did this ($2) is noted, if it is said.
WITH resumed AS (
    UPDATE :"schema".queue AS q SET paused_at = NULL, updated_at = statement_timestamp()
     WHERE q.name = $1::text AND q.paused_at IS NOT NULL
    RETURNING q.name
)
SELECT :"schema".notify_ready_v1(r.name, NULL, 0::smallint, statement_timestamp()),
       CASE WHEN $2::text IS NOT NULL THEN :"schema".note_v1($2::text, 'resume', NULL, r.name, NULL) END AS noted
  FROM resumed AS r;
