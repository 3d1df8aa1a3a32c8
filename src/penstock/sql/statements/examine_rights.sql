-- name: examine_rights
-- Which of these privileges does the role lack? $1 is the schema; $2 and $3 are tables, views or sequences
-- and the privilege needed on each; $4 are functions. What does not exist is not reported: that is not a
-- matter of rights. The catalogs are read by name, because to_regclass fails without the right to the schema.
WITH schema AS (
    SELECT n.oid, n.nspname FROM pg_namespace AS n WHERE n.nspname = $1
)
SELECT 'schema' AS kind, s.nspname::text AS name, 'USAGE' AS privilege
  FROM schema AS s
 WHERE NOT has_schema_privilege(s.oid, 'USAGE')
UNION ALL
SELECT CASE c.relkind WHEN 'S' THEN 'sequence' ELSE 'table' END, c.relname::text, w.privilege
  FROM schema AS s
  JOIN pg_class AS c ON c.relnamespace = s.oid
  JOIN unnest($2::text[], $3::text[]) AS w (name, privilege) ON w.name = c.relname
 WHERE NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, w.privilege)
                          ELSE has_table_privilege(c.oid, w.privilege) END
UNION ALL
SELECT 'function', format('%I.%I(%s)', s.nspname, p.proname, oidvectortypes(p.proargtypes)), 'EXECUTE'
  FROM schema AS s
  JOIN pg_proc AS p ON p.pronamespace = s.oid
 WHERE p.proname = ANY ($4::text[]) AND NOT has_function_privilege(p.oid, 'EXECUTE')
 ORDER BY 1, 2, 3;
