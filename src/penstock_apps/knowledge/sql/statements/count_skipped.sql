-- How many documents of a batch were skipped: their jobs have completed.
SELECT count(*) FROM :"schema".document AS d WHERE d.tenant = $1 AND d.batch = $2 AND d.state = 'skipped' AND d.deleted_at IS NULL
