-- Until the end of the transaction: who adds to a tenant shares it, who counts or removes all of it has it alone ($2).
SELECT CASE WHEN $2::boolean THEN pg_advisory_xact_lock(hashtextextended('penstock knowledge: ' || $1::text, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended('penstock knowledge: ' || $1::text, 0)) END
