-- What is published of a document is its newest version too: nothing of it has changed.
UPDATE :"schema".document AS d
   SET state = 'completed', reason = NULL, error = NULL, published = d.version, embedded = 0,
       ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3
RETURNING d.chunks
