-- Documents of a source that have not ended, by path, after one ($3), with their jobs.
SELECT d.path, d.job FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path > $3 AND d.state IN ('pending', 'processing') AND d.job IS NOT NULL
   AND d.deleted_at IS NULL
 ORDER BY d.path
 LIMIT $4
