-- A source; one with a key is found again.
INSERT INTO :"schema".source AS s (tenant, base, kind, name, key)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (base, kind, key) WHERE deleted_at IS NULL
DO UPDATE SET ended_at = NULL
RETURNING s.id
