-- name: delete
-- Erase jobs that do not run, and note who did ($2), if it is said.
WITH done AS MATERIALIZED (
    SELECT e.id, e.answer FROM :"schema".delete_v1($1::bigint[]) AS e
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'delete', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                             jsonb_build_object('jobs', count(*))
                             || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer = 'deleted' AND $2::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;
