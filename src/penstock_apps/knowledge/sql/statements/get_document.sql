-- A document.
SELECT d.id, d.tenant, d.base, d.source, d.path, d.version, d.published, d.state, d.reason, d.error, d.media_type, d.bytes,
       d.url, d.job, d.batch, d.requested_by, d.kind, d.title, d.pages, d.chunks, d.tokens, d.embedded, d.tags, d.metadata::text AS metadata,
       d.created_at, d.updated_at, d.ended_at, d.stored,
       (SELECT o.name FROM :"schema".object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest) AS object
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.id = $2 AND d.deleted_at IS NULL
