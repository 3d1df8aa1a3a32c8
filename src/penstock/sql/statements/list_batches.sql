-- name: list_batches
-- The ids of batches by filter, newest first, a page from a batch on.
SELECT b.id
  FROM :"schema".batch AS b
 WHERE ($1::text IS NULL OR b.tenant = $1::text)
   AND ($2::text IS NULL OR b.name = $2::text)
   AND ($3::text IS NULL OR $3::text = CASE WHEN b.closed_at IS NULL THEN 'open'
                                            WHEN b.finished_at IS NULL THEN 'running' ELSE 'finished' END)
   AND ($4::bigint IS NULL OR b.id < $4::bigint)
 ORDER BY b.id DESC
 LIMIT $5::integer;
