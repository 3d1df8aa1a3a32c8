-- The sources of a tenant, or of one base ($2), newest first.
SELECT s.id, s.tenant, s.base, s.kind, s.name, s.key, s.tags, s.metadata::text AS metadata, s.batch, s.created_at, s.ended_at
  FROM :"schema".source AS s
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND ($2::bigint IS NULL OR s.base = $2) AND ($3::bigint IS NULL OR s.id < $3) AND s.deleted_at IS NULL
 ORDER BY s.id DESC
 LIMIT $4
