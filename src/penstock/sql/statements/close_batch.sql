-- name: close_batch
-- Let no job be added to a batch any more; with $2 as one that is given up, for that reason.
-- With $3 it is noted, and how many jobs were pending then: by whom ($4).
WITH closed AS MATERIALIZED (
    SELECT c.answer FROM :"schema".close_batch_v1(ARRAY[$1::bigint], $2::text IS NOT NULL) AS c
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($4::text, CASE WHEN $2::text IS NULL THEN 'close_batch' ELSE 'cancel_batch' END,
                             b.tenant, b.id::text,
                             jsonb_strip_nulls(jsonb_build_object('pending', b.pending + d.pending, 'reason', $2::text)))
      FROM closed AS c JOIN :"schema".batch AS b ON b.id = $1::bigint AND c.answer = 'closed' AND $3::boolean
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(e.pending), 0) AS pending FROM :"schema".batch_delta AS e WHERE e.batch = b.id) AS d
)
SELECT c.answer FROM closed AS c LEFT JOIN noted ON true;
