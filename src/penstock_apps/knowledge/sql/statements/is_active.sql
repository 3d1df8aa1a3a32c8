-- Whether anything may be done for a tenant.
SELECT NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND (NOT t.active OR t.deleted_at IS NOT NULL))
