-- Documents of a source by their paths.
SELECT d.id, d.tenant, d.base, d.source, d.path, d.version, d.published, d.state, d.reason, d.error, d.media_type, d.bytes,
       d.url, d.job, d.batch, d.requested_by, d.kind, d.title, d.pages, d.chunks, d.tokens, d.embedded, d.tags, d.metadata::text AS metadata,
       d.created_at, d.updated_at, d.ended_at, d.stored, NULL::text AS object
  FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
 ORDER BY d.id
