-- name: enter_tenant
-- Until the end of the transaction jobs belong to this tenant, and under row level security no other is seen.
SELECT set_config('penstock.tenant', $1::text, true);

-- name: enter_tenant_as_app
-- Until the end of the transaction this is one tenant ($1), with the rights of an app's role ($2) and no others.
SELECT set_config('penstock.tenant', $1::text, true), set_config('role', $2::text, true);

-- name: limit_reads
-- Until the end of the transaction a statement may take only so long, waits for no lock beyond that, and
-- walks indexes: a table of millions is never read from end to end because its statistics are old.
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true),
       set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true);

-- name: list_array_types
-- Every array type that the queue's statements use and a driver must ask the server about first.
SELECT NULL::boolean[], NULL::bytea[], NULL::double precision[], NULL::smallint[], NULL::integer[],
       NULL::bigint[], NULL::timestamptz[], NULL::uuid[]

-- name: get_time
-- What time is it there?
SELECT clock_timestamp() AS now;

-- name: get_server_version
-- The version of the server as a number: 160004 for 16.4.
SELECT current_setting('server_version_num')::integer AS version;

-- name: get_standing
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
