-- Documents of a batch that have not ended, with their jobs.
SELECT d.job, d.id, d.version FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.batch = $2 AND d.state IN ('pending', 'processing') AND d.job IS NOT NULL
 LIMIT $3
