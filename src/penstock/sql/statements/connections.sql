-- name: enter_tenant
-- Set the tenant until the end of the transaction: jobs belong to it, and row level security hides all others.
SELECT set_config('penstock.tenant', $1::text, true);

-- name: enter_tenant_as_app
-- Set the tenant ($1) until the end of the transaction, and take the role of apps ($2) with only its rights.
SELECT set_config('penstock.tenant', $1::text, true), set_config('role', $2::text, true);

-- name: limit_reads
-- Until the end of the transaction, limit how long a statement may take and wait for locks, and make it use indexes: a
-- table of millions is never read from end to end because its statistics are old.
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true),
       set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true);

-- name: list_array_types
-- Use every array type of the queue's statements that a driver must look up on the server first.
SELECT NULL::boolean[], NULL::bytea[], NULL::double precision[], NULL::smallint[], NULL::integer[],
       NULL::bigint[], NULL::timestamptz[], NULL::uuid[]

-- name: get_time
-- Return the server's time.
SELECT clock_timestamp() AS now;

-- name: get_server_version
-- Return the version of the server as a number: 160004 for 16.4.
SELECT current_setting('server_version_num')::integer AS version;

-- name: get_standing
-- Return the role, the owner of the schema, and how row level security applies to the role.
-- $1 is the schema, $2 the role of workers and $3 that of apps. It needs no right to the schema.
SELECT current_user::text AS role, pg_get_userbyid(n.nspowner)::text AS owner,
       coalesce(c.relrowsecurity, false) AS is_secured,
       coalesce(row_security_active(c.oid), false) AS is_confined,
       EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = $2::text AND pg_has_role(r.oid, 'MEMBER')) AS is_worker,
       EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = $3::text AND pg_has_role(r.oid, 'MEMBER')) AS is_app
  FROM pg_namespace AS n
  LEFT JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = 'job' AND c.relkind = 'r'
 WHERE n.nspname = $1::text;
