-- A source.
SELECT s.id, s.tenant, s.base, s.kind, s.name, s.key, s.tags, s.metadata::text AS metadata, s.batch, s.created_at, s.ended_at
  FROM :"schema".source AS s
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL
