-- name: find_missing_texts
-- The texts, by hash, that have no vector yet.
SELECT m AS hash FROM :"schema".missing_v1($1, $2, $3) AS m;

-- name: ask_missing
-- The texts, by hash, that have no vector yet, and whether the tenant is active.
SELECT a.missing, a.active FROM :"schema".ask_missing_v1($1, $2, $3) AS a;

-- name: keep_vectors
-- Keep vectors that are paid for until they are published.
SELECT :"schema".keep_vectors_v1($1, $2, $3, $4);

-- name: publish_document
-- Publish a version of a document: searches find it from the commit on.
SELECT p.answer, p.added, p.missing FROM :"schema".publish_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS p;

-- name: list_chunks
-- The chunks of a document in the edition that is searched, in their order, after a position ($3).
SELECT p.position, p.page, c.id, c.heading, c.text, c.tokens
  FROM :"schema".document AS d
  JOIN :"schema".base AS b ON b.id = d.base
  JOIN :"schema".passage AS p ON p.document = d.id AND p.edition = b.edition
  JOIN :"schema".chunk AS c ON c.id = p.chunk
 WHERE d.tenant = $1 AND d.id = $2 AND d.deleted_at IS NULL AND p.position > $3
 ORDER BY p.position
 LIMIT $4;
