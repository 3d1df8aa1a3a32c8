-- Unique jobs, batches and workflows.

\ir ../functions/enqueue_stored_v1.sql
