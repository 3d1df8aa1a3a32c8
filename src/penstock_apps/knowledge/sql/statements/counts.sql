-- name: count_documents
-- Count the documents of a source ($2), of a base ($3) or of the whole tenant by state. Deleted ones do not count, nor do
-- those of deleted sources and bases.
SELECT c.state, sum(c.number)::bigint AS number
  FROM (SELECT t.source, t.state, t.number FROM :"schema".tally AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)
        UNION ALL
        SELECT t.source, t.state, t.number FROM :"schema".tally_change AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)) AS c
  JOIN :"schema".source AS s ON s.id = c.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 GROUP BY c.state;

-- name: count_recent_documents
-- Count the documents of a base ($2), of a source ($4) or of the whole tenant that came in the last $3 by state. The
-- bases are listed first, so that the index on (base, created_at) serves each of them.
SELECT d.state, count(*) AS number
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
 WHERE d.tenant = $1 AND ($4::bigint IS NULL OR d.source = $4)
   AND d.base = ANY (ARRAY(SELECT b.id FROM :"schema".base AS b
                            WHERE b.tenant = $1 AND ($2::bigint IS NULL OR b.id = $2) AND b.deleted_at IS NULL))
   AND d.created_at >= clock_timestamp() - $3::interval AND d.deleted_at IS NULL
 GROUP BY d.state;

-- name: count_skipped_documents
-- Count the documents of a batch that were skipped. Their jobs have completed, so the batch does not count them.
SELECT count(*) FROM :"schema".document AS d WHERE d.tenant = $1 AND d.batch = $2 AND d.state = 'skipped' AND d.deleted_at IS NULL;

-- name: count_bases
-- Count the documents of each base of a tenant by state, and their chunks, without what is deleted. It reads every
-- document.
SELECT d.base, d.state, count(*) AS number, sum(d.chunks)::bigint AS chunks
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.deleted_at IS NULL
 GROUP BY d.base, d.state;
