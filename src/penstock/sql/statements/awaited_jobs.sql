-- The jobs that a job waits for, first those whose end it has not counted; state is missing for one that is gone.
SELECT d.parent AS id, a.step, a.task, coalesce(a.state, 'missing') AS state, d.satisfied, d.on_failure
  FROM :"schema".dependency AS d
  LEFT JOIN :"schema".job_all AS a ON a.id = d.parent AND a.workflow = d.workflow
 WHERE d.child = $1::bigint
 ORDER BY d.satisfied, d.parent;
