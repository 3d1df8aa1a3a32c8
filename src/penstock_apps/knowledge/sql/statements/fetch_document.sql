-- A document was fetched: its content is a stored file now.
UPDATE :"schema".document AS d
   SET digest = $4, bytes = $5, media_type = $6, stored = true, updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.deleted_at IS NULL
RETURNING d.published IS NOT NULL AND d.digest = $4 AS is_same
