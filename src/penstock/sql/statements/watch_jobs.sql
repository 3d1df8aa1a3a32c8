-- Jobs as those see them who watch. `changed_at` is the newest of the times that a change of state leaves in the row: it
-- never falls, since who moves a row keeps them, and is the same for all who look. How far a job is counts up
-- `changes` meanwhile.
--
-- What is live is looked for first: in the history every partition is asked. Of one that has ended the progress is
-- left out, which is swept away later. $2 is how many bytes a result may have to be shown.
WITH live AS MATERIALIZED (
    SELECT j.id, j.task, j.state, j.reason, j.queue, j.tenant, j.subject, j.requested_by, j.attempt, j.failures,
           j.losses, j.max_attempts, j.created_at, j.run_at, j.attempted_at, NULL::timestamptz AS finished_at,
           j.batch, j.workflow, j.step, p.done, p.total, p.message, j.errors -> -1 AS error, NULL::jsonb AS result,
           greatest(j.created_at, j.ready_at, j.attempted_at) AS changed_at, coalesce(p.version, 0) AS reports
      FROM :"schema".job AS j
      LEFT JOIN :"schema".progress AS p ON p.job = j.id
     WHERE j.id = ANY ($1::bigint[])
), ended AS (
    SELECT h.id, h.task, h.state, h.reason, h.queue, h.tenant, h.subject, h.requested_by, h.attempt, h.failures,
           h.losses, h.max_attempts, h.created_at, h.run_at, h.attempted_at, h.finished_at,
           h.batch, h.workflow, h.step, NULL::double precision AS done, NULL::double precision AS total,
           NULL::text AS message, h.errors -> -1 AS error, h.result,
           greatest(h.created_at, h.ready_at, h.attempted_at, h.finished_at) AS changed_at, 0 AS reports
      FROM :"schema".job_history AS h
     WHERE h.id = ANY (ARRAY(SELECT g.id FROM unnest($1::bigint[]) AS g (id) EXCEPT SELECT l.id FROM live AS l))
)
SELECT w.id, w.task, w.state, w.reason, w.queue, w.tenant, w.subject, w.requested_by, w.attempt, w.failures, w.losses,
       w.max_attempts, w.created_at, w.run_at, w.attempted_at, w.finished_at, w.batch, w.workflow, w.step, w.done,
       w.total, w.message, (w.error - 'traceback')::text AS error,
       CASE WHEN octet_length(w.result::text) <= $2::integer THEN w.result::text END AS result,
       coalesce(octet_length(w.result::text) > $2::integer, false) AS result_left_out,
       greatest(w.changed_at, (w.error ->> 'at')::timestamptz) AS changed_at, w.reports AS changes
  FROM (SELECT * FROM live UNION ALL SELECT * FROM ended) AS w;
