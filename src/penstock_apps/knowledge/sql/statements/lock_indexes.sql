-- Whether this session, of the process $1, may make and drop indexes while others write chunks: it owns them, and nobody
-- else does so now, which would be a deadlock. NULL: it never may. Not waited for: whoever waits here is waited for.
SELECT CASE WHEN pg_has_role(c.relowner, 'USAGE') AND pg_backend_pid() = $1
            THEN pg_try_advisory_lock(hashtextextended('penstock knowledge indexes', 0)) END
  FROM pg_class AS c WHERE c.oid = ':"schema".chunk'::regclass
