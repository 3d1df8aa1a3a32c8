-- name: list_languages
-- The languages whose words can be searched for here: those that a base can name, whatever the search path.
SELECT c.cfgname::text AS name FROM pg_ts_config AS c WHERE c.cfgnamespace = 'pg_catalog'::regnamespace ORDER BY c.cfgname;

-- name: make_base
-- A base by its name; nothing if there is one already.
INSERT INTO :"schema".base (tenant, name, language) VALUES ($1, $2, $3)
ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: lock_base
-- A base that a source comes into stays until the end of the transaction; nothing if it is deleted.
SELECT b.id FROM :"schema".base AS b WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NULL FOR SHARE OF b;

-- name: get_base
-- A base by its name or its id, with the edition that is searched and the one that is being built.
SELECT b.id, b.tenant, b.name, b.language, b.created_at,
       l.id AS edition, l.settings::text AS settings, l.embedder, l.dimensions,
       n.id AS next_edition, n.settings::text AS next_settings, n.batch AS next_batch, n.error AS next_error
  FROM :"schema".base AS b
  LEFT JOIN :"schema".edition AS l ON l.id = b.edition
  LEFT JOIN :"schema".edition AS n ON n.base = b.id AND n.state = 'building'
 WHERE b.tenant = $1 AND (b.name = $2 OR b.id = $3) AND b.deleted_at IS NULL;

-- name: list_bases
-- The bases of a tenant by name: at most $3, after the name $2. One that has lost its editions is left out.
SELECT b.id, b.tenant, b.name, b.language, b.created_at,
       l.id AS edition, l.settings::text AS settings, l.embedder, l.dimensions,
       n.id AS next_edition, n.settings::text AS next_settings, n.batch AS next_batch, n.error AS next_error
  FROM :"schema".base AS b
  JOIN :"schema".edition AS l ON l.id = b.edition
  LEFT JOIN :"schema".edition AS n ON n.base = b.id AND n.state = 'building'
 WHERE b.tenant = $1 AND b.deleted_at IS NULL AND ($2::text IS NULL OR b.name > $2::text)
 ORDER BY b.name
 LIMIT $3::integer;
