-- name: retry_workflow
-- Run again what has failed or was cancelled in a workflow: how many jobs came back, which is noted: by whom ($2).
WITH back AS MATERIALIZED (
    SELECT :"schema".retry_workflow_v1($1::bigint) AS jobs
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($2::text, 'retry_workflow', w.tenant, w.id::text, jsonb_build_object('jobs', b.jobs))
      FROM back AS b JOIN :"schema".workflow AS w ON w.id = $1::bigint
)
SELECT b.jobs FROM back AS b LEFT JOIN noted ON true;
