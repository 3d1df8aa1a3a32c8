-- name: watch_jobs
-- Jobs as those see them who watch. `changed_at` is the newest of the times that a change of state leaves in the row: it
-- never falls, since who moves a row keeps them, and is the same for all who look. How far a job is counts up
-- `changes` meanwhile.
--
-- Of a job that has ended the progress is left out, which is swept away later. $2 is how many bytes a result may have
-- to be shown.
SELECT a.id, a.task, a.state, a.reason, a.queue, a.tenant, a.subject, a.requested_by, a.attempt, a.failures, a.losses,
       a.max_attempts, a.created_at, a.run_at, a.attempted_at, a.finished_at, a.batch, a.workflow, a.step, p.done,
       p.total, p.message, CASE WHEN a.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun' THEN ((a.errors -> -1) - 'traceback')::text END AS error,
       CASE WHEN octet_length(a.result::text) <= $2::integer THEN a.result::text END AS result,
       coalesce(octet_length(a.result::text) > $2::integer, false) AS result_left_out,
       greatest(a.created_at, a.ready_at, a.attempted_at, a.finished_at, (a.errors -> -1 ->> 'at')::timestamptz) AS changed_at,
       coalesce(p.version, 0) AS changes
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id AND a.finished_at IS NULL;
