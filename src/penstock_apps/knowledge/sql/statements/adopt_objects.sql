-- Stored files that have no row get one, as if they had been stored when they were: from here on they are swept as others.
INSERT INTO :"schema".object (tenant, digest, name, bytes, created_at)
SELECT $1, u.digest, u.name, u.bytes, u.created_at
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::timestamptz[]) AS u (digest, name, bytes, created_at)
 ORDER BY u.digest
ON CONFLICT (tenant, digest) DO NOTHING
RETURNING digest
