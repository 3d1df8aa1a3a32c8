-- name: cancel_workflow
-- End all jobs of a workflow that have not ended: how many, which is noted: by whom ($3).
WITH ended AS MATERIALIZED (
    SELECT :"schema".cancel_workflow_v1($1::bigint, $2::text) AS jobs
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($3::text, 'cancel_workflow', w.tenant, w.id::text,
                             jsonb_build_object('jobs', e.jobs, 'reason', $2::text))
      FROM ended AS e JOIN :"schema".workflow AS w ON w.id = $1::bigint
)
SELECT e.jobs FROM ended AS e LEFT JOIN noted ON true;
