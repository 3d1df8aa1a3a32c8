-- What a source holds, to compare with what is there now.
SELECT d.path, d.id, d.digest, d.state, d.reason, d.error, d.chunks, d.embedded, d.tags, d.parent
  FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.deleted_at IS NULL
