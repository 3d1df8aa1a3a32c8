-- name: measure_documents
-- How many documents and bytes these files would add to a source, and whether any of them differs from what is there.
SELECT count(*) FILTER (WHERE d.id IS NULL) AS documents,
       coalesce(sum(g.bytes - coalesce(d.bytes, 0)) FILTER (WHERE d.digest IS DISTINCT FROM g.digest), 0)::bigint AS bytes,
       coalesce(bool_or(d.digest IS DISTINCT FROM g.digest), false) AS changes
  FROM unnest($3::text[], $4::bytea[], $5::bigint[]) AS g (path, digest, bytes)
  LEFT JOIN :"schema".document AS d ON d.tenant = $1 AND d.source = $2 AND d.path = g.path AND d.deleted_at IS NULL;

-- name: put_documents
-- Add documents to a source by their paths, or change those that are there. Returned are those that have to be brought
-- in: new ones, all pages, those with other content, tags, metadata or parent than before, and those that were skipped,
-- failed or cancelled. All others stay as they are. A page keeps its digest and media type until it is fetched again, to
-- be compared. Tags and metadata replace the ones before, unless none are given.
--
-- The caller holds the lock of lock_source. Attachments name their mail ($12) and take no path of other documents: see
-- find_taken_paths. A document that is uploaded to the path of an attachment is no attachment any more, and stays when
-- the mail goes.
WITH given AS (
    SELECT u.path, u.digest, u.bytes, u.media_type, u.url
      FROM unnest($5::text[], $6::bytea[], $7::bigint[], $8::text[], $9::text[]) AS u (path, digest, bytes, media_type, url)
), before AS (
    SELECT d.path, d.bytes FROM :"schema".document AS d
     WHERE d.source = $3 AND d.path = ANY ($5::text[]) AND d.deleted_at IS NULL ORDER BY d.path FOR UPDATE
), put AS (
    INSERT INTO :"schema".document AS d (tenant, base, source, batch, path, digest, bytes, media_type, url, tags, metadata, stored,
                                          parent, depth, attached_to)
    SELECT $1, $2, $3, $4, g.path, g.digest, g.bytes, g.media_type, g.url, $10::text[], $11::jsonb, g.digest IS NOT NULL, $12, $13, $14
      FROM given AS g LEFT JOIN before AS b USING (path)   -- so that it is read before it is changed
     ORDER BY g.path
    ON CONFLICT (source, path) WHERE deleted_at IS NULL DO UPDATE
       SET version = d.version + 1, state = 'pending', reason = NULL, error = NULL,
           digest = CASE WHEN excluded.url IS NULL THEN excluded.digest ELSE d.digest END,
           bytes = CASE WHEN excluded.url IS NULL THEN excluded.bytes ELSE d.bytes END,
           media_type = CASE WHEN excluded.url IS NULL THEN excluded.media_type ELSE d.media_type END, url = excluded.url,
           tags = CASE WHEN excluded.tags = '{}' THEN d.tags ELSE excluded.tags END,
           metadata = CASE WHEN excluded.metadata = '{}' THEN d.metadata ELSE excluded.metadata END,
           parent = excluded.parent, depth = excluded.depth, attached_to = excluded.attached_to,
           batch = excluded.batch, stored = excluded.stored, job = NULL,
           updated_at = clock_timestamp(), ended_at = NULL
     WHERE d.digest IS DISTINCT FROM excluded.digest OR excluded.digest IS NULL
        OR d.state IN ('skipped', 'failed', 'cancelled')
        OR d.parent IS DISTINCT FROM excluded.parent
        OR (excluded.tags <> '{}' AND NOT (d.tags @> excluded.tags AND d.tags <@ excluded.tags))
        OR (excluded.metadata <> '{}' AND d.metadata <> excluded.metadata)
    RETURNING d.id, d.path, d.version, d.bytes
), counted AS (
    INSERT INTO :"schema".usage AS u (tenant, slot, documents, bytes)
    SELECT $1, p.id % 16, count(*) FILTER (WHERE b.path IS NULL), sum(p.bytes - coalesce(b.bytes, 0))
      FROM put AS p LEFT JOIN before AS b USING (path) GROUP BY 2 ORDER BY 2
    ON CONFLICT (tenant, slot) DO UPDATE SET documents = u.documents + excluded.documents, bytes = u.bytes + excluded.bytes
)
SELECT p.id, p.path, p.version, p.bytes FROM put AS p ORDER BY p.id;

-- name: note_jobs
-- Note the job of each document, its priority ($5), and who asked for it ($4).
UPDATE :"schema".document AS d SET job = u.job, requested_by = $4, priority = u.priority
  FROM unnest($2::bigint[], $3::text[], $5::integer[]) AS u (id, job, priority)
 WHERE d.tenant = $1 AND d.id = u.id;

-- name: list_held_documents
-- The documents of a source, to compare them with the files of today.
SELECT d.path, d.id, d.digest, d.state, d.reason, d.error, d.chunks, d.embedded, d.tags, d.parent
  FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.deleted_at IS NULL;

-- name: list_attachments
-- The attachments of a mail.
SELECT d.path, d.id FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.parent = $2 AND d.deleted_at IS NULL;

-- name: find_taken_paths
-- Those of these paths that belong to documents which are not attached to this mail.
SELECT d.path FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
   AND d.parent IS DISTINCT FROM $4;

-- name: fetch_document
-- Note that a document was fetched and its content stored. Returned is whether that content is published already; no row
-- comes back if this version is not wanted any more.
WITH before AS MATERIALIZED (
    SELECT d.id, d.digest, d.media_type, d.bytes, d.published, d.version FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.deleted_at IS NULL
       FOR NO KEY UPDATE
), fetched AS (
    UPDATE :"schema".document AS d
       SET digest = $4, bytes = $5, media_type = $6, stored = true, updated_at = clock_timestamp()
      FROM before AS b WHERE d.id = b.id
), counted AS (
    INSERT INTO :"schema".usage AS u (tenant, slot, bytes) SELECT $1, b.id % 16, $5 - b.bytes FROM before AS b
    ON CONFLICT (tenant, slot) DO UPDATE SET bytes = u.bytes + excluded.bytes
)
SELECT coalesce(b.published = b.version - 1 AND b.digest = $4 AND b.media_type = $6, false) AS is_same FROM before AS b;

-- name: confirm_document
-- Note that the newest version of a document is the same as the published one.
UPDATE :"schema".document AS d
   SET state = 'completed', reason = NULL, error = NULL, published = d.version, embedded = 0,
       ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3
RETURNING d.chunks;

-- name: withdraw_document
-- Take a document out of searches, because its newest version ($3) has no text. The caller has locked the document. The
-- next sweep removes its chunks, unless other documents have them.
WITH before AS MATERIALIZED (
    SELECT d.id, d.chunks, d.tokens FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.published IS NOT NULL
), gone AS (
    DELETE FROM :"schema".passage AS p USING before AS b WHERE p.tenant = $1 AND p.document = b.id
), changed AS (
    UPDATE :"schema".document AS d
       SET published = NULL, chunks = 0, tokens = 0, embedded = 0, title = NULL, kind = NULL, pages = NULL
      FROM before AS b WHERE d.id = b.id
)
INSERT INTO :"schema".usage AS u (tenant, slot, chunks, tokens)
SELECT $1, b.id % 16, -b.chunks, -b.tokens FROM before AS b
ON CONFLICT (tenant, slot) DO UPDATE SET chunks = u.chunks + excluded.chunks, tokens = u.tokens + excluded.tokens;

-- name: fail_document
-- End a version of a document without publishing it, and say why.
UPDATE :"schema".document AS d
   SET state = $4, reason = $5, error = $6, ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.state IN ('pending', 'processing')
RETURNING d.source;

-- name: settle_job
-- End the document of a job that has ended, unless it has ended already.
UPDATE :"schema".document AS d
   SET state = $2, reason = $3, error = $4, ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.job = $1 AND d.state IN ('pending', 'processing');

-- name: list_unsettled_documents
-- Some documents of a batch that have not ended, with their jobs.
SELECT d.job, d.id, d.version FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.batch = $2 AND d.state IN ('pending', 'processing') AND d.job IS NOT NULL
 LIMIT $3;

-- name: retry_documents
-- Bring some failed or cancelled documents of a source in again, as a new version, in a batch ($3).
UPDATE :"schema".document AS d
   SET version = d.version + 1, state = 'pending', reason = NULL, error = NULL, batch = $3, job = NULL,
       updated_at = clock_timestamp(), ended_at = NULL
 WHERE d.id = ANY (ARRAY(
        SELECT o.id FROM :"schema".document AS o
         WHERE o.tenant = $1 AND o.source = $2 AND o.state IN ('failed', 'cancelled') AND o.deleted_at IS NULL
         ORDER BY o.id LIMIT $4 FOR UPDATE))
RETURNING d.id, d.path, d.version, d.bytes, d.priority;

-- name: list_waiting_documents
-- Some documents of a source that have not ended, with their jobs, after a document ($3).
SELECT d.id, d.job FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.id > $3 AND d.state IN ('pending', 'processing') AND d.deleted_at IS NULL
 ORDER BY d.id
 LIMIT $4;

-- name: cancel_documents
-- Cancel the documents of these jobs, which were cancelled.
UPDATE :"schema".document AS d
   SET state = 'cancelled', reason = 'requested', ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.job = ANY ($2::text[]) AND d.state IN ('pending', 'processing');

-- name: count_unfinished_documents
-- Count those of these paths of a source whose documents have not ended.
SELECT count(*) FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
   AND d.state IN ('pending', 'processing');

-- name: lock_documents
-- Keep others from changing these documents until the end of the transaction.
SELECT d.id, d.version FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL
 ORDER BY d.id FOR NO KEY UPDATE;

-- name: document_columns
-- A document `d`, but for its object.
d.id, d.tenant, d.base, d.source, d.path, d.version, d.published, d.state, d.reason, d.error, d.media_type, d.bytes,
d.url, d.job, d.batch, d.requested_by, d.kind, d.title, d.pages, d.chunks, d.tokens, d.embedded, d.tags,
d.metadata::text AS metadata, d.created_at, d.updated_at, d.ended_at, d.stored

-- name: get_document
-- A document, with the name of its stored file.
SELECT :document_columns,
       (SELECT o.name FROM :"schema".object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest) AS object
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.id = $2 AND d.deleted_at IS NULL;

-- name: find_documents
-- The documents of a source that have these paths.
SELECT :document_columns, NULL::text AS object
  FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
 ORDER BY d.id;

-- name: list_documents
-- The documents of a tenant, newest first, before a document ($6): of a base ($2), of a source ($3), in a state ($4), of
-- a batch ($5), with a path ($8).
SELECT :document_columns, NULL::text AS object
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND ($2::bigint IS NULL OR d.base = $2) AND ($3::bigint IS NULL OR d.source = $3)
   AND ($4::text IS NULL OR d.state = $4) AND ($5::text IS NULL OR d.batch = $5) AND ($6::bigint IS NULL OR d.id < $6)
   AND ($8::text IS NULL OR d.path = $8) AND d.deleted_at IS NULL
 ORDER BY d.id DESC
 LIMIT $7;

-- name: watch_documents
-- Documents by their ids ($2), of one tenant ($1) or of any.
SELECT :document_columns, NULL::text AS object
  FROM :"schema".document AS d
 WHERE d.id = ANY ($2::bigint[]) AND ($1::text IS NULL OR d.tenant = $1) AND d.deleted_at IS NULL;
