-- name: open_bucket
-- Open the bucket of a key that was closed for a while, and note who did this ($2), if it is said.
WITH opened AS MATERIALIZED (
    SELECT :"schema".open_bucket_v1($1::text) AS was_closed
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'open_bucket', NULL, $1::text, NULL)
      FROM opened AS o WHERE o.was_closed AND $2::text IS NOT NULL
)
SELECT o.was_closed FROM opened AS o LEFT JOIN noted ON true;
