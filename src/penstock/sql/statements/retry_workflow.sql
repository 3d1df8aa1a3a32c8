-- Run again what has failed or was cancelled in a workflow: how many jobs came back.
SELECT :"schema".retry_workflow_v1($1::bigint);
