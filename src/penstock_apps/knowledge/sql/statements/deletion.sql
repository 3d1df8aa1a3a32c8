-- name: delete_documents
-- Mark documents and their attachments as deleted: nobody sees them any more, and a job removes them later. The caller
-- has locked the documents, so that nobody attaches anything to them meanwhile. With $3, only documents that are still
-- attached to that mail. A file that is uploaded to the path of an attachment meanwhile has another parent by then, and
-- stays.
WITH RECURSIVE doomed AS (
    SELECT d.id, d.parent FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL AND ($3::bigint IS NULL OR d.parent = $3)
    UNION
    SELECT d.id, d.parent FROM doomed AS p JOIN :"schema".document AS d ON d.parent = p.id
     WHERE d.tenant = $1 AND d.deleted_at IS NULL
)
UPDATE :"schema".document AS d SET deleted_at = clock_timestamp()
  FROM doomed AS p
 WHERE d.tenant = $1 AND d.id = p.id AND d.parent IS NOT DISTINCT FROM p.parent AND d.deleted_at IS NULL
RETURNING d.id, d.job;

-- name: delete_source
-- Mark a source as deleted: nobody sees it any more, and a job removes it later.
UPDATE :"schema".source AS s SET deleted_at = clock_timestamp()
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL
RETURNING s.batch;

-- name: delete_base
-- Mark a base as deleted: nobody sees it any more, and a job removes it later.
UPDATE :"schema".base AS b SET deleted_at = clock_timestamp()
 WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NULL
RETURNING b.id;

-- name: delete_tenant
-- Mark a tenant and its bases as deleted: nobody sees them any more, and a job removes them later.
WITH marked AS (
    INSERT INTO :"schema".tenant AS t (tenant, deleted_at) VALUES ($1, clock_timestamp())
    ON CONFLICT (tenant) DO UPDATE SET deleted_at = coalesce(t.deleted_at, clock_timestamp())
)
UPDATE :"schema".base AS b SET deleted_at = clock_timestamp() WHERE b.tenant = $1 AND b.deleted_at IS NULL;

-- name: delete_sources
-- Mark up to $3 sources of a deleted base as deleted, and count them.
WITH marked AS (
    UPDATE :"schema".source AS s SET deleted_at = clock_timestamp()
     WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM :"schema".source AS o JOIN :"schema".base AS b ON b.id = o.base AND b.deleted_at IS NOT NULL
             WHERE o.base = $2 AND o.tenant = $1 AND o.deleted_at IS NULL ORDER BY o.id LIMIT $3))
    RETURNING s.id
)
SELECT count(*) FROM marked;

-- name: list_deleted_documents
-- Some documents that are to be removed, with their jobs: those of a deleted base ($2), of a deleted source ($3), or one
-- that is deleted itself ($4).
SELECT d.id, d.job FROM (
    SELECT b.id, b.job FROM :"schema".document AS b JOIN :"schema".base AS m ON m.id = b.base AND m.deleted_at IS NOT NULL
     WHERE b.base = $2 AND b.tenant = $1
    UNION ALL
    SELECT s.id, s.job FROM :"schema".document AS s JOIN :"schema".source AS m ON m.id = s.source AND m.deleted_at IS NOT NULL
     WHERE s.source = $3 AND s.tenant = $1
    UNION ALL
    SELECT o.id, o.job FROM :"schema".document AS o WHERE o.id = $4 AND o.tenant = $1 AND o.deleted_at IS NOT NULL) AS d
 LIMIT $5;

-- name: list_deleted_sources
-- Some deleted sources of a base.
SELECT s.id FROM :"schema".source AS s WHERE s.tenant = $1 AND s.base = $2 AND s.deleted_at IS NOT NULL LIMIT $3;

-- name: list_deleted_editions
-- All editions of a deleted base.
SELECT e.id FROM :"schema".edition AS e JOIN :"schema".base AS b ON b.id = e.base AND b.deleted_at IS NOT NULL
 WHERE e.tenant = $1 AND e.base = $2 ORDER BY e.id;

-- name: list_deleted_bases
-- The deleted bases of a tenant.
SELECT b.id FROM :"schema".base AS b WHERE b.tenant = $1 AND b.deleted_at IS NOT NULL ORDER BY b.id;

-- name: remove_documents
-- Remove documents, and return the digests of their files.
SELECT r AS digest FROM :"schema".remove_documents_v1($1, $2) AS r;

-- name: remove_tally_changes
-- Remove the changes to the counts of deleted sources that are not folded yet. It waits for a fold that is under way.
DELETE FROM :"schema".tally_change AS t USING :"schema".source AS s
 WHERE t.tenant = $1 AND t.source = ANY ($2::bigint[]) AND s.id = t.source AND s.deleted_at IS NOT NULL;

-- name: remove_tallies
-- Remove the counts of deleted sources.
DELETE FROM :"schema".tally AS t USING :"schema".source AS s
 WHERE t.tenant = $1 AND t.source = ANY ($2::bigint[]) AND s.id = t.source AND s.deleted_at IS NOT NULL;

-- name: remove_sources
-- Remove deleted sources, once everything in them is removed.
DELETE FROM :"schema".source AS s WHERE s.tenant = $1 AND s.id = ANY ($2::bigint[]) AND s.deleted_at IS NOT NULL;

-- name: remove_edition
-- Remove an edition, once its chunks are removed.
DELETE FROM :"schema".edition AS e WHERE e.tenant = $1 AND e.id = $2;

-- name: remove_base
-- Remove a deleted base, once everything in it is removed.
DELETE FROM :"schema".base AS b WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NOT NULL;

-- name: remove_vectors
-- Remove some vectors of a tenant, and count them.
WITH gone AS (
    DELETE FROM :"schema".vector AS v
     WHERE v.tenant = $1 AND v.ctid = ANY (ARRAY(SELECT o.ctid FROM :"schema".vector AS o WHERE o.tenant = $1 LIMIT $2))
    RETURNING 1
)
SELECT count(*) FROM gone;

-- name: remove_tenant
-- Remove a deleted tenant with its settings and its usage, unless it still has a base: then no row comes back.
WITH gone AS (
    DELETE FROM :"schema".tenant AS t
     WHERE t.tenant = $1 AND t.deleted_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM :"schema".base AS b WHERE b.tenant = $1)
    RETURNING t.tenant
), unused AS (
    DELETE FROM :"schema".usage AS u USING gone WHERE u.tenant = gone.tenant
)
SELECT g.tenant FROM gone AS g;

-- name: has_unremoved
-- Whether anything that a tenant has deleted is still to be removed.
SELECT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = $1 AND d.deleted_at IS NOT NULL)
    OR EXISTS (SELECT FROM :"schema".source AS s WHERE s.tenant = $1 AND s.deleted_at IS NOT NULL)
    OR EXISTS (SELECT FROM :"schema".base AS b WHERE b.tenant = $1 AND b.deleted_at IS NOT NULL);

-- name: list_unremoved
-- What was deleted ten minutes ago or earlier and is still to be removed.
SELECT t.tenant, 'tenant' AS what, NULL::bigint AS id FROM :"schema".tenant AS t
 WHERE t.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT b.tenant, 'base', b.id FROM :"schema".base AS b
 WHERE b.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT s.tenant, 'source', s.id FROM :"schema".source AS s
 WHERE s.deleted_at < clock_timestamp() - interval '10 minutes'
UNION ALL
SELECT d.tenant, 'document', d.id FROM :"schema".document AS d
 WHERE d.deleted_at < clock_timestamp() - interval '10 minutes'
 LIMIT $1;
