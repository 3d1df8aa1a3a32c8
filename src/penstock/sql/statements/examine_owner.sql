-- name: examine_owner
-- Who owns the history, and may we do what its owner may: make and drop its partitions?
SELECT pg_get_userbyid(c.relowner)::text AS owner, current_user::text AS role,
       pg_has_role(c.relowner, 'USAGE') AS ours,
       has_schema_privilege(n.oid, 'CREATE') AS creates
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relname = 'job_history';
