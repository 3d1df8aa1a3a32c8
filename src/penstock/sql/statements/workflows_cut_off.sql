-- name: workflows_cut_off
-- Of jobs that came back alone: whose children were cancelled when they failed, by their workflows.
SELECT d.workflow, count(DISTINCT d.parent) AS steps
  FROM :"schema".dependency AS d
 WHERE d.parent = ANY ($1::bigint[]) AND d.on_failure = 'cancel'
 GROUP BY d.workflow
 ORDER BY d.workflow;
