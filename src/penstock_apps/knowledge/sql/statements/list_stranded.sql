-- Some documents that have not ended and whose jobs may have: any of them, for those that wait may be many.
SELECT d.tenant, d.job, d.id, d.version FROM :"schema".document AS d
 WHERE d.state IN ('pending', 'processing') AND d.job IS NOT NULL AND d.deleted_at IS NULL
   AND d.updated_at < clock_timestamp() - interval '1 minute'
 ORDER BY random()
 LIMIT $1
