-- A base is not there any more, for anybody; what is left of it is removed after this.
UPDATE :"schema".base AS b SET deleted_at = clock_timestamp()
 WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NULL
RETURNING b.id
