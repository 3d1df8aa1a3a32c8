-- Of these documents nobody else changes anything until the end of the transaction.
SELECT d.id, d.version FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL
 ORDER BY d.id FOR NO KEY UPDATE
