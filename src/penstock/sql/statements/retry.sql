-- name: retry
-- Run jobs again, and note who did ($2), if it is said. Of those that have ended only such as are in the states $3.
WITH done AS MATERIALIZED (
    SELECT r.id, r.answer FROM :"schema".retry_v1($1::bigint[], p_states => $3::text[]) AS r
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'retry', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                             jsonb_build_object('jobs', count(*))
                             || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer IN ('ready', 'blocked') AND $2::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;
