-- Nobody publishes into a base, and nobody switches its editions, until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('penstock knowledge edition: ' || $1::bigint, 0))
