-- name: create_workflow
-- Create a workflow without jobs, for the given tenant or for that of the transaction. If $4 names who started it, that is
-- written to the audit.
WITH made AS (
    INSERT INTO :"schema".workflow (tenant, name, meta)
    VALUES (coalesce(nullif($1::text, ''), nullif(current_setting('penstock.tenant', true), ''), ''), $2::text, $3::text::jsonb)
    RETURNING id, tenant
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($4::text, 'start_workflow', m.tenant, m.id::text, NULL) FROM made AS m WHERE $4::text IS NOT NULL
)
SELECT m.id FROM made AS m LEFT JOIN noted ON true;

-- name: extend_workflow
-- Add jobs to a workflow.
SELECT id, duplicate FROM :"schema".extend_workflow_v1($1::bigint, $2::text::jsonb, NULL, NULL, $3::text::jsonb);

-- name: get_workflow
-- Return a workflow and the state of its jobs. A failure is tolerated if all dependents continued in spite of it.
SELECT w.id, w.tenant, w.name, w.meta::text, w.created_at, j.*
  FROM :"schema".workflow AS w, LATERAL (
       SELECT count(*) FILTER (WHERE a.state = 'scheduled') AS scheduled,
              count(*) FILTER (WHERE a.state = 'ready') AS ready,
              count(*) FILTER (WHERE a.state = 'running') AS running,
              count(*) FILTER (WHERE a.state = 'blocked') AS blocked,
              count(*) FILTER (WHERE a.state = 'blocked' AND a.reason = 'parent_failed') AS stalled,
              count(*) FILTER (WHERE a.state = 'completed') AS completed,
              count(*) FILTER (WHERE a.state = 'failed') AS failed,
              count(*) FILTER (WHERE a.state = 'cancelled') AS cancelled,
              coalesce(bool_or(a.state = 'failed' AND NOT b.is_borne), false) AS is_failed,
              coalesce(bool_or(a.state = 'cancelled' AND NOT b.is_borne), false) AS is_cancelled,
              max(a.finished_at) AS finished_at
         FROM :"schema".workflow_jobs_v1(ARRAY[w.id]) AS a, LATERAL (
              SELECT a.state IN ('failed', 'cancelled') AND a.has_children AND NOT EXISTS (
                  SELECT FROM :"schema".dependency AS d WHERE d.parent = a.id AND d.on_failure <> 'continue') AS is_borne) AS b) AS j
 WHERE w.id = $1::bigint;

-- name: list_workflows
-- List workflows and the states of their jobs, newest first: a page that begins after one; see get_workflow.
WITH page AS MATERIALIZED (
    SELECT w.id, w.tenant, w.name, w.meta, w.created_at FROM :"schema".workflow AS w
     WHERE ($1::text IS NULL OR w.tenant = $1::text) AND ($2::bigint IS NULL OR w.id < $2::bigint)
     ORDER BY w.id DESC LIMIT $3::integer
), counts AS (
    SELECT a.workflow,
           count(*) FILTER (WHERE a.state = 'scheduled') AS scheduled,
           count(*) FILTER (WHERE a.state = 'ready') AS ready,
           count(*) FILTER (WHERE a.state = 'running') AS running,
           count(*) FILTER (WHERE a.state = 'blocked') AS blocked,
           count(*) FILTER (WHERE a.state = 'blocked' AND a.reason = 'parent_failed') AS stalled,
           count(*) FILTER (WHERE a.state = 'completed') AS completed,
           count(*) FILTER (WHERE a.state = 'failed') AS failed,
           count(*) FILTER (WHERE a.state = 'cancelled') AS cancelled,
           coalesce(bool_or(a.state = 'failed' AND NOT b.is_borne), false) AS is_failed,
           coalesce(bool_or(a.state = 'cancelled' AND NOT b.is_borne), false) AS is_cancelled,
           max(a.finished_at) AS finished_at
      FROM :"schema".workflow_jobs_v1(ARRAY(SELECT p.id FROM page AS p)) AS a, LATERAL (
           SELECT a.state IN ('failed', 'cancelled') AND a.has_children AND NOT EXISTS (
               SELECT FROM :"schema".dependency AS d WHERE d.parent = a.id AND d.on_failure <> 'continue') AS is_borne) AS b
     GROUP BY a.workflow
)
SELECT p.id, p.tenant, p.name, p.meta::text, p.created_at,
       coalesce(c.scheduled, 0) AS scheduled, coalesce(c.ready, 0) AS ready, coalesce(c.running, 0) AS running,
       coalesce(c.blocked, 0) AS blocked, coalesce(c.stalled, 0) AS stalled, coalesce(c.completed, 0) AS completed,
       coalesce(c.failed, 0) AS failed, coalesce(c.cancelled, 0) AS cancelled,
       coalesce(c.is_failed, false) AS is_failed, coalesce(c.is_cancelled, false) AS is_cancelled, c.finished_at
  FROM page AS p LEFT JOIN counts AS c ON c.workflow = p.id
 ORDER BY p.id DESC;

-- name: cancel_workflow
-- Cancel all jobs of a workflow that have not ended. Returns how many, and writes to the audit who did it ($3).
WITH ended AS MATERIALIZED (
    SELECT :"schema".cancel_workflow_v1($1::bigint, $2::text) AS jobs
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($3::text, 'cancel_workflow', w.tenant, w.id::text,
                                    jsonb_build_object('jobs', e.jobs, 'reason', $2::text))
      FROM ended AS e JOIN :"schema".workflow AS w ON w.id = $1::bigint
)
SELECT e.jobs FROM ended AS e LEFT JOIN noted ON true;

-- name: retry_workflow
-- Run the failed and cancelled jobs of a workflow again. Returns how many, and writes to the audit who did it ($2).
WITH back AS MATERIALIZED (
    SELECT :"schema".retry_workflow_v1($1::bigint) AS jobs
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'retry_workflow', w.tenant, w.id::text, jsonb_build_object('jobs', b.jobs))
      FROM back AS b JOIN :"schema".workflow AS w ON w.id = $1::bigint
)
SELECT b.jobs FROM back AS b LEFT JOIN noted ON true;

-- name: read_parents
-- Return the outcomes of the jobs that a job has waited for, to the attempt that owns it.
SELECT id, step, task, state, reason, result::text, error FROM :"schema".read_parents_v1($1::bigint, $2::uuid);

-- name: list_workflow_steps
-- Return the jobs of a workflow, each with the jobs that it waits for or has waited for.
SELECT a.id, a.step, a.task, a.state, a.reason, a.attempt, a.pending, a.run_at, a.attempted_at, a.finished_at,
       a.error, e.parents
  FROM :"schema".workflow_jobs_v1(ARRAY[$1::bigint]) AS a
  LEFT JOIN (SELECT d.child, array_agg(d.parent ORDER BY d.parent) AS parents
               FROM :"schema".dependency AS d WHERE d.workflow = $1::bigint GROUP BY d.child) AS e ON e.child = a.id
 ORDER BY a.id;

-- name: is_workflow_finished
-- Return whether all jobs of a workflow have ended, for those who wait.
SELECT NOT EXISTS (SELECT FROM :"schema".job AS j WHERE j.workflow = w.id) AS is_over
  FROM :"schema".workflow AS w
 WHERE w.id = $1::bigint;

-- name: list_cancelled_branches
-- Count, by workflow, those of some retried jobs whose children were cancelled when they failed.
SELECT d.workflow, count(DISTINCT d.parent) AS steps
  FROM :"schema".dependency AS d
 WHERE d.parent = ANY ($1::bigint[]) AND d.on_failure = 'cancel'
 GROUP BY d.workflow
 ORDER BY d.workflow;
