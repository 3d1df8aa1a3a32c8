-- The sources of a tenant, or of one base ($2), newest first, before one ($3); those with one of these names or keys ($5).
SELECT s.id, s.tenant, s.base, s.kind, s.name, s.key, s.batch, s.requested_by, s.created_at, s.ended_at
  FROM :"schema".source AS s
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND ($2::bigint IS NULL OR s.base = $2) AND ($3::bigint IS NULL OR s.id < $3) AND s.deleted_at IS NULL
   AND ($5::text[] IS NULL OR s.name = ANY ($5) OR s.key = ANY ($5))
 ORDER BY s.id DESC
 LIMIT $4
