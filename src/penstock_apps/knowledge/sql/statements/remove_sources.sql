-- Remove sources; all that were in them are gone.
DELETE FROM :"schema".source AS s WHERE s.tenant = $1 AND s.id = ANY ($2::bigint[]) AND s.deleted_at IS NOT NULL
