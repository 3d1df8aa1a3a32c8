-- Remove a base; all that was in it is gone.
DELETE FROM :"schema".base AS b WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NOT NULL
