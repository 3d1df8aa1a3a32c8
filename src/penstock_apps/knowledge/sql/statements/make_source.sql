-- A source; one with a key is found again, and its name, tags and metadata are as they are given now.
INSERT INTO :"schema".source AS s (tenant, base, kind, name, key, tags, metadata)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb)
ON CONFLICT (base, kind, key) WHERE deleted_at IS NULL
DO UPDATE SET tags = excluded.tags, metadata = excluded.metadata, ended_at = NULL
RETURNING s.id
