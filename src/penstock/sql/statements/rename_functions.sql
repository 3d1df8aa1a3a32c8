-- The statements after which the functions of a renamed schema look for their tables in it.
-- $1 is the schema, $2 its former name as it stands in a search_path, $3 that name always in quotes.
SELECT format('ALTER FUNCTION %s SET search_path = %I, pg_temp', p.oid::regprocedure, $1::text) AS statement
  FROM pg_proc AS p
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text))
   AND format('search_path=%s, pg_temp', $2::text) = ANY (p.proconfig)
UNION ALL
-- With the new search_path, as this comes after the other.
SELECT format('DO $rename$ BEGIN EXECUTE replace(pg_get_functiondef(%L::regprocedure), %L, %L); END $rename$',
              p.oid::regprocedure, $3::text || '.', '"' || replace($1::text, '"', '""') || '".')
  FROM pg_proc AS p
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.prokind = 'f'
   AND strpos(p.prosrc, $3::text || '.') > 0;
