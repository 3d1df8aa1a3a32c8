-- name: examine_functions
-- Which functions does the schema not have, or with another body than it was made with?
-- $1 is the schema, $2 the names, $3 the bodies.
SELECT f.name, bool_and(p.oid IS NULL) AS missing
  FROM unnest($2::text[], $3::text[]) AS f (name, body)
  LEFT JOIN (pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace AND n.nspname = $1)
    ON p.proname = f.name
 WHERE p.oid IS NULL OR p.prosrc <> f.body
 GROUP BY f.name
 ORDER BY f.name;
