-- name: list_dead
-- Dead letters by filter, those that failed last first: a page behind a moment and an id.
SELECT h.id, h.task, h.state, h.queue, h.lane, h.reason, h.priority, h.tenant, h.subject, h.requested_by,
       h.tags, h.attempt, h.failures, h.losses, h.max_attempts, h.timeout, h.retry::text, h.args::text, h.args_version,
       h.meta::text, h.created_at, h.run_at, h.ready_at, h.attempted_at, h.finished_at, h.deadline,
       NULL::timestamptz AS stuck_since, h.errors::text, h.result::text, h.batch, h.workflow, h.step, h.unique_key,
       0 AS pending,
       (SELECT ARRAY[p.done::text, p.total::text, p.message]
          FROM :"schema".progress AS p WHERE p.job = h.id) AS progress
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
   AND (h.finished_at, h.id) < (coalesce($11::timestamptz, 'infinity'), $12::bigint)
 ORDER BY h.finished_at DESC, h.id DESC
 LIMIT $13::integer;
