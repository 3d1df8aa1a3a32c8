-- Whether a tenant is deleted, and not removed yet.
SELECT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND t.deleted_at IS NOT NULL)
