-- A version of a document has not gone in, and why.
UPDATE :"schema".document AS d
   SET state = $4, reason = $5, error = $6, ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.state IN ('pending', 'processing')
RETURNING d.source
