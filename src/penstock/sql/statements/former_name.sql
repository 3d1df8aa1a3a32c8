-- name: former_name
-- What the schema was named when its functions were made, if it was renamed since: they look for tables there.
-- $1 is the schema, $2 some of the functions that Penstock made.
SELECT f.name
  FROM pg_proc AS p CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
 CROSS JOIN LATERAL (SELECT substring(c.setting FROM '^search_path=("(?:[^"]|"")*"|[^,"]+), ') AS name) AS f
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.proname = ANY ($2::text[])
   AND c.setting LIKE '%, pg\_temp'
   AND f.name <> quote_ident($1::text) AND f.name <> format('"%s"', replace($1::text, '"', '""'))
 LIMIT 1;
