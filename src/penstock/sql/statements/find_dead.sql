-- name: find_dead
-- The ids of dead letters by filter, those that failed first first, for whoever changes them: a page behind a moment
-- and an id. What fails from the first page on is in none: its moment comes with each row, to be given for the next.
SELECT h.id, h.finished_at, least($10::timestamptz, statement_timestamp()) AS began
  FROM :"schema".job_history AS h
 WHERE h.state = 'failed'
   AND ($1::text IS NULL OR h.queue = $1::text)
   AND ($2::text IS NULL OR h.task = $2::text)
   AND ($3::text IS NULL OR h.tenant = $3::text)
   AND ($4::text IS NULL OR h.subject = $4::text)
   AND ($5::text IS NULL OR $5::text = ANY (h.tags))
   AND ($6::text IS NULL OR h.reason = $6::text)
   AND ($7::text IS NULL OR h.errors -> -1 ->> 'type' = $7::text)
   AND ($8::bigint IS NULL OR h.batch = $8::bigint)
   AND h.finished_at >= coalesce($9::timestamptz, '-infinity')
   AND h.finished_at < least($10::timestamptz, statement_timestamp())
   AND (h.finished_at, h.id) > (coalesce($11::timestamptz, '-infinity'), $12::bigint)
 ORDER BY h.finished_at, h.id
 LIMIT $13::integer;
