-- name: shut_bucket
-- Let nobody take from the bucket of a key for some seconds, and note who did this ($3), if it is said.
WITH closed AS MATERIALIZED (
    SELECT :"schema".close_bucket_v1($1::text, $2::double precision) AS seconds
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($3::text, 'close_bucket', NULL, $1::text, jsonb_build_object('seconds', $2::double precision))
      FROM closed WHERE $3::text IS NOT NULL
)
SELECT c.seconds FROM closed AS c LEFT JOIN noted ON true;
