-- name: be_tenant
-- Let the transaction be of one tenant ($1), and with a role ($2) have the rights of that role alone.
SELECT set_config('penstock.tenant', $1::text, true),
       CASE WHEN $2::text IS NOT NULL THEN set_config('role', $2::text, true) END;

-- name: lift_timeouts
-- Lift all time limits, of this transaction ($1 is true) or of the session. Not every version of Postgres has each of
-- them.
SELECT set_config(s.name, '0', $1) FROM pg_settings AS s
 WHERE s.name IN ('statement_timeout', 'lock_timeout', 'idle_session_timeout',
                  'idle_in_transaction_session_timeout', 'transaction_timeout');

-- name: name_database
-- A name for these tables that a copy of them, in another database or on another server, does not share.
SELECT format('database %s (%s) of server %s, schema %s', d.datname, d.oid, c.system_identifier, $schema$:"schema"$schema$)
  FROM pg_database AS d, pg_control_system() AS c
 WHERE d.datname = current_database();
