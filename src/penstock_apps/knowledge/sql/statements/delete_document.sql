-- A document is not there any more, for anybody; what is left of it is removed after this.
UPDATE :"schema".document AS d SET deleted_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.deleted_at IS NULL
RETURNING d.job
