-- name: list_languages
-- The languages that a base may name: the text search configurations of Postgres itself, whatever the search path.
SELECT c.cfgname::text AS name FROM pg_ts_config AS c WHERE c.cfgnamespace = 'pg_catalog'::regnamespace ORDER BY c.cfgname;

-- name: make_base
-- Make a base. No row comes back if there is one of this name.
INSERT INTO :"schema".base (tenant, name, language) VALUES ($1, $2, $3)
ON CONFLICT (tenant, name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: lock_base
-- Keep a base from being deleted until the end of the transaction, which adds a source to it. No row if it is deleted.
SELECT b.id FROM :"schema".base AS b WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NULL FOR SHARE OF b;

-- name: base_columns
-- A base `b` with its live edition `l` and the next one `n`.
b.id, b.tenant, b.name, b.language, b.created_at,
l.id AS edition, l.settings::text AS settings, l.embedder, l.dimensions,
n.id AS next_edition, n.settings::text AS next_settings, n.batch AS next_batch, n.error AS next_error

-- name: get_base
-- A base by its name ($2) or its id ($3), with the edition that is searched and the one that is being built.
SELECT :base_columns
  FROM :"schema".base AS b
  LEFT JOIN :"schema".edition AS l ON l.id = b.edition
  LEFT JOIN :"schema".edition AS n ON n.base = b.id AND n.state = 'building'
 WHERE b.tenant = $1 AND (b.name = $2 OR b.id = $3) AND b.deleted_at IS NULL;

-- name: list_bases
-- The bases of a tenant by name: at most $3, after the name $2. A base that has lost its edition is left out.
SELECT :base_columns
  FROM :"schema".base AS b
  JOIN :"schema".edition AS l ON l.id = b.edition
  LEFT JOIN :"schema".edition AS n ON n.base = b.id AND n.state = 'building'
 WHERE b.tenant = $1 AND b.deleted_at IS NULL AND ($2::text IS NULL OR b.name > $2::text)
 ORDER BY b.name
 LIMIT $3::integer;
