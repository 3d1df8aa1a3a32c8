-- name: find_vector_schema
-- The schema that pgvector was put into.
SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
 WHERE e.extname = 'vector';

-- name: has_rls
-- Whether row level security is on for any table of a schema.
SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
                WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relrowsecurity);

-- name: find_left_behind
-- A schema of knowledge whose queue is gone, as after a rename of the queue's schema alone.
SELECT n.nspname FROM pg_namespace AS n
 WHERE right(n.nspname, 10) = '_knowledge'
   AND EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = n.oid AND c.relname = 'passage')
   AND NOT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS q ON q.oid = c.relnamespace
                    WHERE c.relname = 'job' AND q.nspname = left(n.nspname, -10))
 LIMIT 1;

-- name: note_migration
-- Note that a migration was applied.
INSERT INTO :"schema".migration (number, name) VALUES ($1, $2);
