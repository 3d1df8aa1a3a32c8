-- name: hold_objects
-- Hold files that are about to be stored: they are not removed until they are released, or for an hour.
INSERT INTO :"schema".object AS o (tenant, digest, name, bytes, holds, held_until)
SELECT $1, u.digest, u.name, u.bytes, 1, clock_timestamp() + interval '1 hour'
  FROM unnest($2::bytea[], $3::text[], $4::bigint[]) AS u (digest, name, bytes)
 ORDER BY u.digest
ON CONFLICT (tenant, digest) DO UPDATE SET holds = o.holds + 1, held_until = clock_timestamp() + interval '1 hour';

-- name: release_objects
-- Release held files: their uploads have ended.
UPDATE :"schema".object AS o SET holds = greatest(0, o.holds - 1)
  FROM (SELECT u.digest FROM unnest($2::bytea[]) AS u (digest) GROUP BY u.digest ORDER BY u.digest) AS u
 WHERE o.tenant = $1 AND o.digest = u.digest
RETURNING o.digest;

-- name: adopt_objects
-- Make rows for stored files that have none, with the time at which they were stored. From then on the sweep judges them
-- like all others.
INSERT INTO :"schema".object (tenant, digest, name, bytes, created_at)
SELECT $1, u.digest, u.name, u.bytes, u.created_at
  FROM unnest($2::bytea[], $3::text[], $4::bigint[], $5::timestamptz[]) AS u (digest, name, bytes, created_at)
 ORDER BY u.digest
ON CONFLICT (tenant, digest) DO NOTHING
RETURNING digest;

-- name: lock_objects
-- Lock stored files that nobody holds, until the end of the transaction. Files that others have locked are in use, and
-- left out.
SELECT o.digest FROM :"schema".object AS o
 WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[]) AND (o.holds = 0 OR o.held_until < clock_timestamp())
   FOR UPDATE SKIP LOCKED;

-- name: list_unneeded_objects
-- Those of the locked files that no document needs. It is a statement of its own, so that it sees what was written before
-- the lock was taken.
SELECT o.digest, o.name FROM :"schema".object AS o
 WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[])
   AND NOT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = $1 AND d.digest = o.digest AND d.stored);

-- name: list_read_objects
-- Those of the locked files that no unfinished document has still to read.
SELECT o.digest, o.name FROM :"schema".object AS o
 WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[])
   AND NOT EXISTS (SELECT FROM :"schema".document AS d
                    WHERE d.tenant = $1 AND d.digest = o.digest AND d.stored AND d.state IN ('pending', 'processing'));

-- name: forget_objects
-- Note that the files of these digests are not kept any more. The texts of their documents stay.
UPDATE :"schema".document AS d SET stored = false WHERE d.tenant = $1 AND d.digest = ANY ($2::bytea[]) AND d.stored;

-- name: remove_objects
-- Remove the rows of files that are removed from the storage.
DELETE FROM :"schema".object AS o WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[]);

-- name: list_objects
-- Some stored files of a tenant.
SELECT o.digest FROM :"schema".object AS o WHERE o.tenant = $1 LIMIT $2;

-- name: list_orphaned_objects
-- Stored files that no document needs and nobody holds: among all files if they are fewer than $1, otherwise among $1
-- that were stored from a random time on.
WITH first AS (
    SELECT CASE WHEN count(*) < $1 THEN 0 ELSE random() END AS start FROM (SELECT FROM :"schema".object LIMIT $1) AS few
)
SELECT n.tenant, n.digest
  FROM (SELECT o.tenant, o.digest, o.holds, o.held_until FROM :"schema".object AS o
         WHERE o.created_at >= (SELECT min(m.created_at) + f.start * (max(m.created_at) - min(m.created_at))
                                 FROM :"schema".object AS m, first AS f GROUP BY f.start)
         ORDER BY o.created_at LIMIT $1) AS n
 WHERE (n.holds = 0 OR n.held_until < clock_timestamp())
   AND NOT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = n.tenant AND d.digest = n.digest AND d.stored);

-- name: list_expired_objects
-- Files that are stored for longer than their tenant wants, which is its setting raw_days, or else $1 days. 0 keeps files
-- for ever.
SELECT o.tenant, o.digest
  FROM :"schema".object AS o
  LEFT JOIN :"schema".tenant AS t ON t.tenant = o.tenant
 CROSS JOIN LATERAL (SELECT coalesce((t.settings->>'raw_days')::double precision, $1::double precision) AS days) AS k
 WHERE k.days > 0
   AND greatest(o.created_at, o.held_until - interval '1 hour') < clock_timestamp() - k.days * interval '1 day'
   AND NOT EXISTS (SELECT FROM :"schema".document AS d
                    WHERE d.tenant = o.tenant AND d.digest = o.digest AND d.stored AND d.state IN ('pending', 'processing'))
 ORDER BY o.created_at
 LIMIT $2;
