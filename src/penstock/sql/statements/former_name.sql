-- What the schema was named when its functions were made, if it was renamed since: they look for tables there.
-- $1 is the schema, $2 some of the functions that Penstock made.
SELECT split_part(substr(c.setting, length('search_path=') + 1), ', pg_temp', 1) AS name
  FROM pg_proc AS p CROSS JOIN LATERAL unnest(p.proconfig) AS c (setting)
 WHERE p.pronamespace = to_regnamespace(quote_ident($1::text)) AND p.proname = ANY ($2::text[])
   AND c.setting LIKE 'search_path=%, pg\_temp'
   AND c.setting <> format('search_path=%s, pg_temp', quote_ident($1::text))
   AND c.setting <> format('search_path="%s", pg_temp', replace($1::text, '"', '""'))
 LIMIT 1;
