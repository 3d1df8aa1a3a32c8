-- How many documents of a source, by their paths, have not ended.
SELECT count(*) FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
   AND d.state IN ('pending', 'processing')
