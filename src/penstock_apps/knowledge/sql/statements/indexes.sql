-- name: list_indexes
-- The vector indexes of editions: whether each is complete, whether its edition still needs it, and the edition's tenant.
SELECT n.edition, i.indisvalid AND i.indisready AS is_whole, e.id IS NOT NULL AS is_wanted, e.tenant
  FROM pg_index AS i
  JOIN pg_class AS c ON c.oid = i.indexrelid
 CROSS JOIN LATERAL (SELECT substring(c.relname FROM '^chunk_edition_(\d+)$')::bigint AS edition OFFSET 0) AS n
  LEFT JOIN (:"schema".edition AS e JOIN :"schema".base AS b ON b.id = e.base AND b.deleted_at IS NULL)
    ON e.id = n.edition AND e.state <> 'retired'
 WHERE i.indrelid = ':"schema".chunk'::regclass AND n.edition IS NOT NULL
 ORDER BY n.edition;

-- name: lock_indexes
-- Take the lock for making and dropping indexes while others write chunks. Two sessions that do so at a time would
-- deadlock. False: another session has the lock. NULL: this session never may, as it does not own the chunks, or a pooler
-- stands between (its process is not $1). The lock is not waited for: CREATE INDEX CONCURRENTLY waits for everybody who
-- waits.
SELECT CASE WHEN pg_has_role(c.relowner, 'USAGE') AND pg_backend_pid() = $1
            THEN pg_try_advisory_lock(hashtextextended('penstock knowledge indexes', 0)) END
  FROM pg_class AS c WHERE c.oid = ':"schema".chunk'::regclass;

-- name: drop_index_concurrently
-- Drop the vector index of an edition while others write. The number of the edition is put in place of $1.
DROP INDEX CONCURRENTLY IF EXISTS :"schema".chunk_edition_$1;

-- name: count_chunks
-- How many chunks an edition ($1) has; $2 if it has more.
SELECT count(*) FROM (SELECT FROM :"schema".chunk AS c WHERE c.edition = $1 LIMIT $2) AS counted;

-- name: get_edition_dimensions
-- How many dimensions the vectors of an edition have.
SELECT e.dimensions FROM :"schema".edition AS e WHERE e.id = $1;

-- name: pick_editions
-- Some random editions that are searched, with their tenants: those that documents are being added to ($2 is true), or
-- the others.
SELECT e.tenant, e.id AS edition
  FROM :"schema".base AS b JOIN :"schema".edition AS e ON e.id = b.edition
 WHERE b.deleted_at IS NULL
   AND $2 = EXISTS (SELECT FROM :"schema".source AS s
                     WHERE s.base = b.id AND s.ended_at IS NULL AND s.batch IS NOT NULL AND s.deleted_at IS NULL)
 ORDER BY random() LIMIT $1;
