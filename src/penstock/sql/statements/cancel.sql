-- name: cancel
-- End jobs at once, and note who did ($3), if it is said.
WITH done AS MATERIALIZED (
    SELECT c.id, c.answer FROM :"schema".cancel_v1($1::bigint[], $2::text) AS c
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($3::text, 'cancel', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                             jsonb_build_object('jobs', count(*), 'reason', $2::text)
                             || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer = 'cancelled' AND $3::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;
