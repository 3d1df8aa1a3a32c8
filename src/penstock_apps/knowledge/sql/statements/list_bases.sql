-- The bases of a tenant by name: at most $3, after the name $2. One that has lost its editions is left out.
SELECT b.id, b.tenant, b.name, b.language, b.created_at,
       l.id AS edition, l.settings::text AS settings, l.embedder, l.dimensions,
       n.id AS next_edition, n.settings::text AS next_settings, n.batch AS next_batch, n.error AS next_error
  FROM :"schema".base AS b
  JOIN :"schema".edition AS l ON l.id = b.edition
  LEFT JOIN :"schema".edition AS n ON n.base = b.id AND n.state = 'building'
 WHERE b.tenant = $1 AND b.deleted_at IS NULL AND ($2::text IS NULL OR b.name > $2::text)
 ORDER BY b.name
 LIMIT $3::integer
