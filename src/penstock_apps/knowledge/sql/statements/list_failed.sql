-- Documents of a source that have failed, by path, after one ($3).
SELECT d.path, d.bytes AS size, d.digest, d.media_type, d.url FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path > $3 AND d.state = 'failed' AND d.deleted_at IS NULL
 ORDER BY d.path
 LIMIT $4
