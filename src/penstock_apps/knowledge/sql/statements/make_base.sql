-- A base by its name; nothing if there is one already.
INSERT INTO :"schema".base (tenant, name, language) VALUES ($1, $2, $3)
ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id
