-- What was deleted some minutes ago and is still there. A base goes with its tenant, a source with its base.
SELECT t.tenant, 'tenant' AS what, NULL::bigint AS id FROM :"schema".tenant AS t
 WHERE t.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT b.tenant, 'base', b.id FROM :"schema".base AS b
 WHERE b.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT s.tenant, 'source', s.id FROM :"schema".source AS s
 WHERE s.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT d.tenant, 'document', d.id FROM :"schema".document AS d
 WHERE d.deleted_at < clock_timestamp() - interval '10 minutes'
 LIMIT $1
