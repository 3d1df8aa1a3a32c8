-- name: list_failed
-- List failed jobs by filter, the last failure first: a page after a time and an id.
SELECT :job_columns, NULL::timestamptz AS stuck_since, 0 AS pending, :progress_columns
  FROM :"schema".job_history AS a
 WHERE a.state = 'failed'
   AND ($1::text IS NULL OR a.queue = $1::text)
   AND ($2::text IS NULL OR a.task = $2::text)
   AND ($3::text IS NULL OR a.tenant = $3::text)
   AND ($4::text IS NULL OR a.subject = $4::text)
   AND ($5::text IS NULL OR $5::text = ANY (a.tags))
   AND ($6::text IS NULL OR a.reason = $6::text)
   AND ($7::text IS NULL OR a.errors -> -1 ->> 'type' = $7::text)
   AND ($8::bigint IS NULL OR a.batch = $8::bigint)
   AND a.finished_at >= coalesce($9::timestamptz, '-infinity')
   AND a.finished_at < coalesce($10::timestamptz, 'infinity')
   AND (a.finished_at, a.id) < (coalesce($11::timestamptz, 'infinity'), $12::bigint)
 ORDER BY a.finished_at DESC, a.id DESC
 LIMIT $13::integer;

-- name: find_failed
-- Return the ids of failed jobs by filter, the first failure first, for bulk changes: a page after a time and an id. Jobs
-- that fail after the first page was read are on no page: that time is in each row, to be passed for the next page.
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

-- name: summarize_failed
-- Count failed jobs by filter, by task, reason and type of error, among the latest $11.
SELECT f.task, f.reason, f.error, count(*)::integer AS number, max(f.id) AS example,
       (array_agg(f.message ORDER BY f.finished_at DESC, f.id DESC))[1] AS message,
       min(f.finished_at) AS first_at, max(f.finished_at) AS last_at
  FROM (
    SELECT h.id, h.task, h.reason, h.finished_at, h.errors -> -1 ->> 'type' AS error,
           left(h.errors -> -1 ->> 'message', 500) AS message
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
       AND h.finished_at < coalesce($10::timestamptz, 'infinity')
     ORDER BY h.finished_at DESC
     LIMIT $11::integer
  ) AS f
 GROUP BY f.task, f.reason, f.error
 ORDER BY number DESC, last_at DESC;

-- name: redrive
-- Run failed jobs again, and write to the audit how many, by whom ($4) and with which filter ($5).
WITH back AS MATERIALIZED (
    SELECT r.id, r.answer, r.due FROM :"schema".redrive_v1($1::bigint[], $2::double precision, $3::timestamptz) AS r
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($4::text, 'redrive', $5::text::jsonb ->> 'tenant',
                                    CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                                    jsonb_build_object('jobs', count(*)) || $5::text::jsonb)
      FROM back AS b WHERE b.due IS NOT NULL HAVING count(*) > 0
)
SELECT b.id, b.answer, b.due FROM back AS b LEFT JOIN noted ON true;

-- name: purge
-- Delete failed jobs, and write to the audit how many, by whom ($2) and with which filter ($3).
WITH gone AS MATERIALIZED (
    SELECT p.id, p.answer FROM :"schema".purge_v1($1::bigint[]) AS p
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'purge', $3::text::jsonb ->> 'tenant',
                                    CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                                    jsonb_build_object('jobs', count(*)) || $3::text::jsonb)
      FROM gone AS g WHERE g.answer = 'deleted' HAVING count(*) > 0
)
SELECT g.id, g.answer FROM gone AS g LEFT JOIN noted ON true;
