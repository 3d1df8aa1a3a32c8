-- Forget a tenant that is deleted and has no base any more: what it had, and what was set for it. Nothing if it has.
WITH gone AS (
    DELETE FROM :"schema".tenant AS t
     WHERE t.tenant = $1 AND t.deleted_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM :"schema".base AS b WHERE b.tenant = $1)
    RETURNING t.tenant
), unused AS (
    DELETE FROM :"schema".usage AS u USING gone WHERE u.tenant = gone.tenant
)
SELECT g.tenant FROM gone AS g
