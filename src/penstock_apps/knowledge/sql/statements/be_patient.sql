-- No limit of time holds in this session, or in this transaction alone ($1): some are not known to every version.
SELECT set_config(s.name, '0', $1) FROM pg_settings AS s
 WHERE s.name IN ('statement_timeout', 'lock_timeout', 'idle_session_timeout',
                  'idle_in_transaction_session_timeout', 'transaction_timeout')
