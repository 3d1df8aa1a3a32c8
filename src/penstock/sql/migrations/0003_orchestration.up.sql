-- Unique jobs, batches and workflows.

\ir ../functions/enqueue_stored_v1.sql

-- Dead letters.
\ir ../functions/dead_v1.sql
\ir ../functions/redrive_v1.sql
\ir ../functions/purge_v1.sql
