-- Documents of a tenant, of a base ($2), of a source ($3), in a state ($4), of a batch ($5), with a path ($8); newest first,
-- before one ($6).
SELECT d.id, d.tenant, d.base, d.source, d.path, d.version, d.published, d.state, d.reason, d.error, d.media_type, d.bytes,
       d.url, d.job, d.batch, d.requested_by, d.kind, d.title, d.pages, d.chunks, d.tokens, d.embedded, d.tags, d.metadata::text AS metadata,
       d.created_at, d.updated_at, d.ended_at, d.stored, NULL::text AS object
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND ($2::bigint IS NULL OR d.base = $2) AND ($3::bigint IS NULL OR d.source = $3)
   AND ($4::text IS NULL OR d.state = $4) AND ($5::text IS NULL OR d.batch = $5) AND ($6::bigint IS NULL OR d.id < $6)
   AND ($8::text IS NULL OR d.path = $8) AND d.deleted_at IS NULL
 ORDER BY d.id DESC
 LIMIT $7
