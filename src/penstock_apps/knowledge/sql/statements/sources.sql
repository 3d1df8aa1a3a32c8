-- name: make_source
-- Make a source. If it has a key, the source with that key comes back.
INSERT INTO :"schema".source AS s (tenant, base, kind, name, key)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (base, kind, key) WHERE deleted_at IS NULL
DO UPDATE SET ended_at = NULL
RETURNING s.id;

-- name: find_source
-- The source of a base that has a key.
SELECT s.id FROM :"schema".source AS s
 WHERE s.tenant = $1 AND s.base = $2 AND s.kind = $3 AND s.key = $4 AND s.deleted_at IS NULL;

-- name: lock_source
-- Keep a source from being deleted until the end of the transaction, which adds documents to it. No row if it is deleted.
-- Transactions that add to one source take turns, so that each sees the documents of those before it, and usage counts
-- every document once.
SELECT s.id FROM :"schema".source AS s JOIN :"schema".base AS b ON b.id = s.base
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL AND b.deleted_at IS NULL
   FOR NO KEY UPDATE OF s;

-- name: begin_batch
-- Note the batch that brings documents into a source now, and who asked for it.
UPDATE :"schema".source SET batch = $3, requested_by = $4, ended_at = NULL WHERE tenant = $1 AND id = $2;

-- name: end_source
-- Note that a batch ($3) has ended, if it is still the newest of its source.
UPDATE :"schema".source SET ended_at = clock_timestamp() WHERE tenant = $1 AND id = $2 AND batch = $3;

-- name: source_columns
-- A source `s`.
s.id, s.tenant, s.base, s.kind, s.name, s.key, s.batch, s.requested_by, s.created_at, s.ended_at

-- name: get_source
-- A source.
SELECT :source_columns
  FROM :"schema".source AS s
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL;

-- name: list_sources
-- The sources of a tenant or of one base ($2), newest first, before a source ($3). With $5, those that have one of these
-- names or keys.
SELECT :source_columns
  FROM :"schema".source AS s
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND ($2::bigint IS NULL OR s.base = $2) AND ($3::bigint IS NULL OR s.id < $3) AND s.deleted_at IS NULL
   AND ($5::text[] IS NULL OR s.name = ANY ($5) OR s.key = ANY ($5))
 ORDER BY s.id DESC
 LIMIT $4;

-- name: watch_sources
-- How many documents of sources ($2) are in each state, of one tenant ($1) or of any.
SELECT s.id, s.tenant, s.name, s.batch, s.requested_by, s.ended_at, c.*
  FROM :"schema".source AS s
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(t.number), 0)::bigint AS total,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'pending'), 0)::bigint AS pending,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'processing'), 0)::bigint AS processing,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'completed'), 0)::bigint AS completed,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'skipped'), 0)::bigint AS skipped,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'failed'), 0)::bigint AS failed,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'cancelled'), 0)::bigint AS cancelled
         FROM (SELECT y.state, y.number FROM :"schema".tally AS y WHERE y.source = s.id
               UNION ALL
               SELECT y.state, y.number FROM :"schema".tally_change AS y WHERE y.source = s.id) AS t) AS c
 WHERE s.id = ANY ($2::bigint[]) AND ($1::text IS NULL OR s.tenant = $1) AND s.deleted_at IS NULL;

-- name: find_copied_sources
-- Those of some sources ($2) whose files are mostly copies: of up to $4 of its documents, at least half are the same
-- files as documents of other sources ($3).
SELECT s.id
  FROM unnest($2::bigint[]) AS s (id)
 CROSS JOIN LATERAL (
       SELECT count(*) AS seen,
              count(*) FILTER (WHERE EXISTS (SELECT FROM :"schema".document AS o
                                              WHERE o.tenant = $1 AND o.digest = d.digest AND o.source = ANY ($3::bigint[])
                                                AND o.deleted_at IS NULL)) AS same
         FROM (SELECT w.digest FROM :"schema".document AS w
                WHERE w.tenant = $1 AND w.source = s.id AND w.deleted_at IS NULL LIMIT $4) AS d) AS c
 WHERE c.seen > 0 AND 2 * c.same >= c.seen;
