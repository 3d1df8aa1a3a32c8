-- name: find_missing_texts
-- The texts, by hash, that have no vector yet.
SELECT m AS hash FROM :"schema".missing_v1($1, $2, $3) AS m;

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
