-- Takes unique jobs, batches and workflows away again. Jobs stay; those that wait for others go on waiting.
DROP FUNCTION :"schema".redrive_v1, :"schema".purge_v1, :"schema".dead_v1;
DROP FUNCTION :"schema".enqueue_stored_v1;
