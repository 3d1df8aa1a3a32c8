-- name: has_ledger
-- Return whether a schema exists, and whether it has a list of migrations.
SELECT to_regnamespace(quote_ident($1)) IS NOT NULL AS schema,
       to_regclass(format('%I.migration', $1)) IS NOT NULL AS ledger

-- name: create_ledger
-- Create the list of applied migrations. It stays even when the first migration is undone.
CREATE TABLE IF NOT EXISTS :"schema".migration (
    number      integer     NOT NULL,
    name        text        NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT migration_pkey PRIMARY KEY (number)
)

-- name: list_applied_migrations
-- List the applied migrations, in order.
SELECT number, name, applied_at FROM :"schema".migration ORDER BY number

-- name: lock_migrations
-- Wait until nobody else migrates this schema. The lock belongs to the transaction, so that it also works with PgBouncer.
SELECT pg_advisory_xact_lock(hashtextextended(current_database() || '.' || $1 || '.migrate', 0))

-- name: list_missing_functions
-- Return which of these functions the schema does not have.
SELECT f.name
  FROM unnest($2::text[]) AS f (name)
 WHERE NOT EXISTS (SELECT FROM pg_proc AS p
                    WHERE p.pronamespace = to_regnamespace(quote_ident($1)) AND p.proname = f.name)

-- name: find_former_name
-- Return the name of the schema when its functions were created, if it was renamed since: they look for tables there.
-- $1 is the schema, $2 some of Penstock's functions.
SELECT f.name
  FROM pg_proc AS p CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
 CROSS JOIN LATERAL (SELECT substring(c.setting FROM '^search_path=("(?:[^"]|"")*"|[^,"]+), ') AS name) AS f
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.proname = ANY ($2::text[])
   AND c.setting LIKE '%, pg\_temp'
   AND f.name <> quote_ident($1::text) AND f.name <> format('"%s"', replace($1::text, '"', '""'))
 LIMIT 1;

-- name: rename_functions
-- Return the statements that make the functions of a renamed schema look for tables in it.
-- $1 is the schema, $2 its former name as it is written in a search_path, $3 that name always in quotes.
SELECT format('ALTER FUNCTION %s SET search_path = %I%s', p.oid::regprocedure, $1::text,
              substr(c.setting, length('search_path=' || $2::text) + 1)) AS statement
  FROM pg_proc AS p CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text))
   AND starts_with(c.setting, format('search_path=%s, ', $2::text)) AND c.setting LIKE '%, pg\_temp'
UNION ALL
-- These use the new search_path, because they run after the statements above.
SELECT format('DO $rename$ BEGIN EXECUTE replace(pg_get_functiondef(%L::regprocedure), %L, %L); END $rename$',
              p.oid::regprocedure, $3::text || '.', '"' || replace($1::text, '"', '""') || '".')
  FROM pg_proc AS p
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.prokind = 'f'
   AND strpos(p.prosrc, $3::text || '.') > 0;

-- name: has_rls
-- Return whether row level security is on. The table of jobs stands for the whole schema.
SELECT c.relrowsecurity AS is_on
  FROM pg_class AS c
 WHERE c.relnamespace = to_regnamespace(quote_ident($1)) AND c.relname = 'job' AND c.relkind = 'r'
