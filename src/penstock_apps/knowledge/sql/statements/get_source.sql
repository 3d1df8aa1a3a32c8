-- A source.
SELECT s.id, s.tenant, s.base, s.kind, s.name, s.key, s.batch, s.requested_by, s.created_at, s.ended_at
  FROM :"schema".source AS s
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL
