-- All that is needed to bring a version of a document into an edition ($4) that is being built; nothing if it is not wanted.
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
   AND NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = d.tenant AND (NOT t.active OR t.deleted_at IS NOT NULL))
