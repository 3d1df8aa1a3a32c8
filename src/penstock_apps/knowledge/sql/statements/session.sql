-- name: be_tenant
-- Until the end of the transaction this is one tenant ($1); with a role ($2) it has the rights of that and no others.
SELECT set_config('penstock.tenant', $1::text, true),
       CASE WHEN $2::text IS NOT NULL THEN set_config('role', $2::text, true) END;

-- name: lift_timeouts
-- No limit of time holds in this session, or in this transaction alone ($1): some are not known to every version.
SELECT set_config(s.name, '0', $1) FROM pg_settings AS s
 WHERE s.name IN ('statement_timeout', 'lock_timeout', 'idle_session_timeout',
                  'idle_in_transaction_session_timeout', 'transaction_timeout');

-- name: name_database
-- Which tables these are: a copy of them in another database has another name, and one on another server too.
SELECT format('database %s (%s) of server %s, schema %s', d.datname, d.oid, c.system_identifier, $schema$:"schema"$schema$)
  FROM pg_database AS d, pg_control_system() AS c
 WHERE d.datname = current_database();
