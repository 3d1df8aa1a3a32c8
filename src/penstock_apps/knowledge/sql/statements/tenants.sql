-- name: lock_tenant
-- Lock a tenant until the end of the transaction: shared by those who add to it, alone ($2) for those who count all that
-- it has or remove it.
SELECT CASE WHEN $2::boolean THEN pg_advisory_xact_lock(hashtextextended('penstock knowledge: ' || $1::text, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended('penstock knowledge: ' || $1::text, 0)) END;

-- name: is_tenant_active
-- Whether a tenant is neither switched off nor deleted.
SELECT NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND (NOT t.active OR t.deleted_at IS NOT NULL));

-- name: is_tenant_deleted
-- Whether a tenant is deleted and not removed yet.
SELECT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND t.deleted_at IS NOT NULL);

-- name: get_tenant
-- The settings of a tenant and its usage.
SELECT coalesce(t.active AND t.deleted_at IS NULL, true) AS active, coalesce(t.settings, '{}')::text AS settings,
       u.documents, u.bytes, u.chunks, u.tokens
  FROM (SELECT coalesce(sum(u.documents), 0)::bigint AS documents, coalesce(sum(u.bytes), 0)::bigint AS bytes,
               coalesce(sum(u.chunks), 0)::bigint AS chunks, coalesce(sum(u.tokens), 0)::bigint AS tokens
          FROM :"schema".usage AS u WHERE u.tenant = $1) AS u
  LEFT JOIN :"schema".tenant AS t ON t.tenant = $1;

-- name: set_tenant
-- Change settings of a tenant. What is not named stays; null sets the default again.
INSERT INTO :"schema".tenant AS t (tenant, active, settings) VALUES ($1, coalesce($2, true), jsonb_strip_nulls($3::jsonb))
ON CONFLICT (tenant) DO UPDATE
   SET active = coalesce($2, t.active), settings = jsonb_strip_nulls(t.settings || $3::jsonb);
