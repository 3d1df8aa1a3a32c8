-- Documents are not there any more, for anybody; what is left of them is removed after this.
UPDATE :"schema".document AS d SET deleted_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL
RETURNING d.id, d.job
