-- name: list_workflows
-- Workflows and how far their jobs are, newest first, a page from one on; see get_workflow.
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
