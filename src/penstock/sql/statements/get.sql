-- name: get
-- Jobs by id, live or final, in one statement; of a running one also its worker.
SELECT a.id, a.task, a.state, a.queue, a.lane, a.reason, a.priority, a.tenant, a.subject, a.requested_by,
       a.tags, a.attempt, a.failures, a.losses, a.max_attempts, a.timeout, a.retry::text, a.args::text, a.args_version,
       a.meta::text, a.created_at, a.run_at, a.ready_at, a.attempted_at, a.finished_at, a.deadline,
       a.stuck_since, a.errors::text, a.result::text, a.batch, a.workflow, a.step, a.unique_key, a.pending, l.worker,
       (SELECT ARRAY[p.done::text, p.total::text, p.message]
          FROM :"schema".progress AS p WHERE p.job = a.id) AS progress
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".job AS j ON j.id = a.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease;
