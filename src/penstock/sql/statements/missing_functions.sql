-- name: missing_functions
-- Which of these functions does the schema not have?
SELECT f.name
  FROM unnest($2::text[]) AS f (name)
 WHERE NOT EXISTS (SELECT FROM pg_proc AS p
                    WHERE p.pronamespace = to_regnamespace(quote_ident($1)) AND p.proname = f.name)
