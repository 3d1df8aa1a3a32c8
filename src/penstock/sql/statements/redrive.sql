-- name: redrive
-- Bring dead letters back, and note how many: by whom ($4), and as which ($5).
WITH back AS MATERIALIZED (
    SELECT r.id, r.answer, r.due FROM :"schema".redrive_v1($1::bigint[], $2::double precision, $3::timestamptz) AS r
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($4::text, 'redrive', $5::text::jsonb ->> 'tenant',
                             CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                             jsonb_build_object('jobs', count(*)) || $5::text::jsonb)
      FROM back AS b WHERE b.due IS NOT NULL HAVING count(*) > 0
)
SELECT b.id, b.answer, b.due FROM back AS b LEFT JOIN noted ON true;
