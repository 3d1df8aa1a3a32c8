-- Documents by their paths in a source: new ones, those with other content than before, and those that did not go in
-- before. What is there already, or on its way, is left alone and not returned. A page that is fetched again keeps the
-- digest and the media type that it had, to be compared. Tags and metadata become those that are given; if none are,
-- those before stay.
-- The source is locked: see lock_source.sql. Attachments name their mail ($12), and stand where no document of others does:
-- see find_taken.sql. What is uploaded to the path of an attachment is attached no more: it stays when the mail goes.
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
SELECT p.id, p.path, p.version, p.bytes FROM put AS p ORDER BY p.id
