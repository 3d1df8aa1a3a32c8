-- name: rename_functions
-- The statements after which the functions of a renamed schema look for their tables in it.
-- $1 is the schema, $2 its former name as it stands in a search_path, $3 that name always in quotes.
SELECT format('ALTER FUNCTION %s SET search_path = %I%s', p.oid::regprocedure, $1::text,
              substr(c.setting, length('search_path=' || $2::text) + 1)) AS statement
  FROM pg_proc AS p CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text))
   AND starts_with(c.setting, format('search_path=%s, ', $2::text)) AND c.setting LIKE '%, pg\_temp'
UNION ALL
-- With the new search_path, as this comes after the other.
SELECT format('DO $rename$ BEGIN EXECUTE replace(pg_get_functiondef(%L::regprocedure), %L, %L); END $rename$',
              p.oid::regprocedure, $3::text || '.', '"' || replace($1::text, '"', '""') || '".')
  FROM pg_proc AS p
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.prokind = 'f'
   AND strpos(p.prosrc, $3::text || '.') > 0;
