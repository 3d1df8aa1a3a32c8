-- The documents of these jobs: they were cancelled.
UPDATE :"schema".document AS d
   SET state = 'cancelled', reason = 'requested', ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.job = ANY ($2::text[]) AND d.state IN ('pending', 'processing')
