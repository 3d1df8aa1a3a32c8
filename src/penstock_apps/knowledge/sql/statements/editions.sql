-- name: make_edition
-- Make an edition of a base.
INSERT INTO :"schema".edition (tenant, base, settings, embedder, dimensions, state)
VALUES ($1, $2, $3::jsonb, $4, $5, $6)
RETURNING id;

-- name: make_edition_live
-- Make an edition the one that is searched, and retire all others of the base.
WITH changed AS (
    UPDATE :"schema".edition AS e SET state = CASE WHEN e.id = $2 THEN 'live' ELSE 'retired' END
     WHERE e.base = $1 AND e.state IN ('live', 'building')
)
UPDATE :"schema".base AS b SET edition = $2 WHERE b.id = $1 AND b.deleted_at IS NULL;

-- name: lock_editions
-- Keep others from publishing into a base and from switching its editions until the end of the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('penstock knowledge edition: ' || $1::bigint, 0));

-- name: find_building_edition
-- The edition of a base that is being built with these settings.
SELECT e.id FROM :"schema".edition AS e
 WHERE e.tenant = $1 AND e.base = $2 AND e.state = 'building' AND e.settings = $3::jsonb AND e.embedder = $4;

-- name: retire_building_editions
-- Retire the edition of a base that is being built, unless it is this one ($3).
UPDATE :"schema".edition AS e SET state = 'retired'
 WHERE e.tenant = $1 AND e.base = $2 AND e.state = 'building' AND e.id IS DISTINCT FROM $3;

-- name: note_edition
-- Note the batch that builds an edition, or why the edition is not complete.
UPDATE :"schema".edition AS e SET batch = coalesce($3, e.batch), error = $4 WHERE e.tenant = $1 AND e.id = $2;

-- name: get_edition
-- The base and the state of an edition.
SELECT e.base, e.state FROM :"schema".edition AS e WHERE e.tenant = $1 AND e.id = $2;

-- name: find_searched_editions
-- The editions in which sources ($2) are searched.
SELECT DISTINCT b.edition FROM :"schema".source AS s JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND s.id = ANY ($2);

-- name: list_unbuilt_documents
-- Some published documents of a base ($2) that an edition ($3) does not have yet, after a document ($4). With $6, those
-- that have a newer version under way, which will bring them into the edition; without it, the others.
SELECT d.id, d.path, d.version, d.bytes FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.base = $2 AND d.id > $4 AND d.published IS NOT NULL AND d.chunks > 0 AND d.deleted_at IS NULL
   AND (d.state IN ('pending', 'processing')) = $6
   AND NOT EXISTS (SELECT FROM :"schema".passage AS p WHERE p.document = d.id AND p.edition = $3)
 ORDER BY d.id
 LIMIT $5;

-- name: peek_document
-- All that a job needs to bring a version of a document into an edition ($4) that is being built. No row comes back if it
-- is not wanted any more.
SELECT d.base, d.source, d.path, d.media_type, d.bytes, d.digest, d.stored, d.url, d.published, d.kind, d.title,
       d.depth, d.attached_to, false AS has_attachments,
       (SELECT o.name FROM :"schema".object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest) AS object,
       ARRAY[jsonb_build_object('id', e.id, 'settings', e.settings, 'embedder', e.embedder,
                                'dimensions', e.dimensions, 'live', e.state = 'live')::text] AS editions
  FROM :"schema".document AS d
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".edition AS e ON e.id = $4 AND e.base = d.base AND e.state = 'building'
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.deleted_at IS NULL
   AND NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = d.tenant AND (NOT t.active OR t.deleted_at IS NOT NULL));

-- name: read_passages
-- The published chunks of a document, in their order.
SELECT c.heading, c.text, p.page
  FROM :"schema".document AS d
  JOIN :"schema".base AS b ON b.id = d.base
  JOIN :"schema".passage AS p ON p.document = d.id AND p.edition = b.edition
  JOIN :"schema".chunk AS c ON c.id = p.chunk
 WHERE d.tenant = $1 AND d.id = $2
 ORDER BY p.position;

-- name: list_retired_editions
-- Some retired editions, of any tenant.
SELECT e.tenant, e.id FROM :"schema".edition AS e WHERE e.state = 'retired' LIMIT $1;
