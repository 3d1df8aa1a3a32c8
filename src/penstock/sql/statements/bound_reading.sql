-- name: bound_reading
-- Until the end of the transaction a statement may take only so long, waits for no lock beyond that, and
-- walks indexes: a table of millions is never read from end to end because its statistics are old.
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true),
       set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true);
