-- The bases of a tenant that is deleted.
SELECT b.id FROM :"schema".base AS b WHERE b.tenant = $1 AND b.deleted_at IS NOT NULL ORDER BY b.id
