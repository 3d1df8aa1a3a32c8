-- Begin with a version of a document, if it is still wanted, and tell all that is needed for it.
UPDATE :"schema".document AS d
   SET state = 'processing', updated_at = clock_timestamp()
  FROM :"schema".base AS b, :"schema".source AS s
 WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.deleted_at IS NULL
   AND b.id = d.base AND b.deleted_at IS NULL AND s.id = d.source AND s.deleted_at IS NULL
   AND NOT EXISTS (SELECT FROM :"schema".tenant AS t WHERE t.tenant = d.tenant AND (NOT t.active OR t.deleted_at IS NOT NULL))
RETURNING d.base, d.source, d.path, d.media_type, d.bytes, d.digest, d.stored, d.url, d.published,
          (SELECT o.name FROM :"schema".object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest) AS object,
          ARRAY(SELECT jsonb_build_object('id', e.id, 'settings', e.settings, 'embedder', e.embedder,
                                          'dimensions', e.dimensions, 'live', e.state = 'live')::text
                  FROM :"schema".edition AS e WHERE e.base = d.base AND e.state IN ('live', 'building')
                 ORDER BY e.state DESC) AS editions
