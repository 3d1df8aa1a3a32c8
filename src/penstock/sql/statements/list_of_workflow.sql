-- name: list_of_workflow
-- Jobs of a workflow by filter, newest first, a page from a job on. Apart from the list of all, so that its plan is too.
SELECT a.id, a.task, a.state, a.queue, a.lane, a.reason, a.priority, a.tenant, a.subject, a.requested_by,
       a.tags, a.attempt, a.failures, a.losses, a.max_attempts, a.timeout, a.retry::text, a.args::text, a.args_version,
       a.meta::text, a.created_at, a.run_at, a.ready_at, a.attempted_at, a.finished_at, a.deadline,
       a.stuck_since, a.errors::text, a.result::text, a.batch, a.workflow, a.step, a.unique_key, a.pending,
       (SELECT ARRAY[p.done::text, p.total::text, p.message]
          FROM :"schema".progress AS p WHERE p.job = a.id) AS progress
  FROM :"schema".job_all AS a
 WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
   AND ($2::text IS NULL OR a.queue = $2::text)
   AND ($3::text IS NULL OR a.task = $3::text)
   AND ($4::text IS NULL OR a.tenant = $4::text)
   AND ($5::text IS NULL OR a.subject = $5::text)
   AND ($6::text IS NULL OR $6::text = ANY (a.tags))
   AND ($7::bigint IS NULL OR a.id < $7::bigint)
   AND a.workflow = $9::bigint
 ORDER BY a.id DESC
 LIMIT $8::integer;
