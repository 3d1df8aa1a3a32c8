-- name: is_workflow_over
-- Whether all jobs of a workflow have ended, for those who wait.
SELECT NOT EXISTS (SELECT FROM :"schema".job AS j WHERE j.workflow = w.id) AS is_over
  FROM :"schema".workflow AS w
 WHERE w.id = $1::bigint;
