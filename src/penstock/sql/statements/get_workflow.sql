-- name: get_workflow
-- One workflow and how far its jobs are. A failure is borne if all that waited for it went on in spite of it.
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
