-- Files that are about to be stored: until they are, or for an hour, nobody removes them.
INSERT INTO :"schema".object AS o (tenant, digest, name, bytes, holds, held_until)
SELECT $1, u.digest, u.name, u.bytes, 1, clock_timestamp() + interval '1 hour'
  FROM unnest($2::bytea[], $3::text[], $4::bigint[]) AS u (digest, name, bytes)
 ORDER BY u.digest
ON CONFLICT (tenant, digest) DO UPDATE SET holds = o.holds + 1, held_until = clock_timestamp() + interval '1 hour'
