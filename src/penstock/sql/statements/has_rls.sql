-- name: has_rls
-- Is row level security on? The table of jobs says it for the whole schema.
SELECT c.relrowsecurity AS is_on
  FROM pg_class AS c
 WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relname = 'job' AND c.relkind = 'r'
