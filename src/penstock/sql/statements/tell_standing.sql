-- name: tell_standing
-- Who asks: the role, who owns the schema, and what row level security makes of the role.
-- $1 is the schema, $2 the role of workers and $3 that of apps. It needs no right to the schema.
SELECT current_user::text AS role, pg_get_userbyid(n.nspowner)::text AS owner,
       coalesce(c.relrowsecurity, false) AS is_secured,
       coalesce(row_security_active(c.oid), false) AS is_confined,
       EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = $2::text AND pg_has_role(r.oid, 'MEMBER')) AS is_worker,
       EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = $3::text AND pg_has_role(r.oid, 'MEMBER')) AS is_app
  FROM pg_namespace AS n
  LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'job' AND c.relkind = 'r'
 WHERE n.nspname = $1::text;
