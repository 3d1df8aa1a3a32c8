-- Takes unique jobs, batches and workflows away again. Jobs stay; those that wait for others go on waiting.
DROP FUNCTION :"schema".enqueue_stored_v1;
