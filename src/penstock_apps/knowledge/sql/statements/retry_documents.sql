-- Some documents of a source that did not go in are wanted again, as a new version, in a batch.
UPDATE :"schema".document AS d
   SET version = d.version + 1, state = 'pending', reason = NULL, error = NULL, batch = $3, job = NULL,
       updated_at = clock_timestamp(), ended_at = NULL
 WHERE d.id = ANY (ARRAY(
        SELECT o.id FROM :"schema".document AS o
         WHERE o.tenant = $1 AND o.source = $2 AND o.state IN ('failed', 'cancelled') AND o.deleted_at IS NULL
         ORDER BY o.id LIMIT $4 FOR UPDATE))
RETURNING d.id, d.path, d.version, d.bytes, d.priority
