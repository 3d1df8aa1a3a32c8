-- A source is not there any more, for anybody; what is left of it is removed after this.
UPDATE :"schema".source AS s SET deleted_at = clock_timestamp()
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL
RETURNING s.batch
