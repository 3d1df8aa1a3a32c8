-- The jobs of these documents of a source were cancelled before they began.
UPDATE :"schema".document SET state = 'cancelled', reason = 'requested', updated_at = clock_timestamp(), ended_at = clock_timestamp()
 WHERE tenant = $1 AND source = $2 AND path = ANY ($3::text[]) AND job = ANY ($4::text[]) AND state IN ('pending', 'processing')
