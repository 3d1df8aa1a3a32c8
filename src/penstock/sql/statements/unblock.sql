-- name: unblock
-- Let blocked jobs run now, without what they wait for, and note how many: by whom ($2).
WITH freed AS MATERIALIZED (
    SELECT u.id, u.answer FROM :"schema".unblock_v1($1::bigint[]) AS u
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'unblock', NULL,
                             CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                             jsonb_build_object('jobs', count(*)))
      FROM freed AS f WHERE f.answer = 'ready' HAVING count(*) > 0
)
SELECT f.id, f.answer FROM freed AS f LEFT JOIN noted ON true;
