-- name: purge
-- Erase dead letters, and note how many: by whom ($2), and as which ($3).
WITH gone AS MATERIALIZED (
    SELECT p.id, p.answer FROM :"schema".purge_v1($1::bigint[]) AS p
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'purge', $3::text::jsonb ->> 'tenant',
                             CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                             jsonb_build_object('jobs', count(*)) || $3::text::jsonb)
      FROM gone AS g WHERE g.answer = 'deleted' HAVING count(*) > 0
)
SELECT g.id, g.answer FROM gone AS g LEFT JOIN noted ON true;
