-- Some documents of a source that have not ended, after one ($3), with their jobs.
SELECT d.id, d.job FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.id > $3 AND d.state IN ('pending', 'processing') AND d.deleted_at IS NULL
 ORDER BY d.id
 LIMIT $4
