-- Vectors that are paid for, until they are published.
INSERT INTO :"schema".vector (tenant, embedder, hash, embedding)
SELECT $1, $2, u.hash, u.embedding FROM unnest($3::bytea[], $4) AS u (hash, embedding) ORDER BY u.hash
ON CONFLICT (tenant, embedder, hash) DO NOTHING
