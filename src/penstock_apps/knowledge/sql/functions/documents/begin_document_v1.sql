-- Begin a version of a document, unless it is superseded or deleted, and return what its job needs. For workers: a
-- transaction of one statement, which does not wait for the disk. If a crash loses it, the job begins again.
CREATE FUNCTION :"schema".begin_document_v1(p_tenant text, p_document bigint, p_version integer)
RETURNS TABLE (path text, media_type text, bytes bigint, digest bytea, stored boolean, url text, published integer,
               depth integer, attached_to text, has_attachments boolean, object text, editions text[])
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    PERFORM set_config('penstock.tenant', p_tenant, true), set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    UPDATE document AS d
       SET state = 'processing', updated_at = clock_timestamp()
      FROM base AS b, source AS s
     WHERE d.tenant = p_tenant AND d.id = p_document AND d.version = p_version AND d.deleted_at IS NULL
       AND b.id = d.base AND b.deleted_at IS NULL AND s.id = d.source AND s.deleted_at IS NULL
       AND NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = d.tenant AND (NOT t.active OR t.deleted_at IS NOT NULL))
    RETURNING d.path, d.media_type, d.bytes, d.digest, d.stored, d.url, d.published, d.depth, d.attached_to,
              EXISTS (SELECT FROM document AS c WHERE c.parent = d.id AND c.deleted_at IS NULL),
              (SELECT o.name FROM object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest),
              ARRAY(SELECT jsonb_build_object('id', e.id, 'settings', e.settings, 'embedder', e.embedder,
                                              'dimensions', e.dimensions, 'live', e.state = 'live')::text
                      FROM edition AS e WHERE e.base = d.base AND e.state IN ('live', 'building')
                     ORDER BY e.state DESC);
END
$$;
