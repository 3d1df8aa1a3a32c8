-- An edition of a base.
INSERT INTO :"schema".edition (tenant, base, settings, embedder, dimensions, state)
VALUES ($1, $2, $3::jsonb, $4, $5, $6)
RETURNING id
