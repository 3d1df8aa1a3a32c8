-- name: lock_tenant
-- Until the end of the transaction: who adds to a tenant shares it, who counts or removes all of it has it alone ($2).
SELECT CASE WHEN $2::boolean THEN pg_advisory_xact_lock(hashtextextended('penstock knowledge: ' || $1::text, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended('penstock knowledge: ' || $1::text, 0)) END;

-- name: is_tenant_active
-- Whether anything may be done for a tenant.
SELECT NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND (NOT t.active OR t.deleted_at IS NOT NULL));

-- name: is_tenant_deleted
-- Whether a tenant is deleted, and not removed yet.
SELECT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = $1 AND t.deleted_at IS NOT NULL);

-- name: get_tenant
-- What is set for a tenant, and what it has.
SELECT coalesce(t.active AND t.deleted_at IS NULL, true) AS active, coalesce(t.settings, '{}')::text AS settings,
       u.documents, u.bytes, u.chunks, u.tokens
  FROM (SELECT coalesce(sum(u.documents), 0)::bigint AS documents, coalesce(sum(u.bytes), 0)::bigint AS bytes,
               coalesce(sum(u.chunks), 0)::bigint AS chunks, coalesce(sum(u.tokens), 0)::bigint AS tokens
          FROM :"schema".usage AS u WHERE u.tenant = $1) AS u
  LEFT JOIN :"schema".tenant AS t ON t.tenant = $1;

-- name: set_tenant
-- Set something for a tenant; what is not named stays, what is null goes back to its default.
INSERT INTO :"schema".tenant AS t (tenant, active, settings) VALUES ($1, coalesce($2, true), jsonb_strip_nulls($3::jsonb))
ON CONFLICT (tenant) DO UPDATE
   SET active = coalesce($2, t.active), settings = jsonb_strip_nulls(t.settings || $3::jsonb);
