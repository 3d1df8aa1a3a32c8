-- End all jobs of a workflow that have not ended: how many.
SELECT :"schema".cancel_workflow_v1($1::bigint, $2::text);
