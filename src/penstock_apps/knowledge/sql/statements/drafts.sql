-- name: write_draft
-- Write the texts into which a version of a document was cut for an edition.
INSERT INTO :"schema".draft (tenant, document, edition, version, attempt, position, hash, tokens, heading, text, page)
SELECT $1, $2, $3, $4, $5, u.position, u.hash, u.tokens, u.heading, u.text, u.page
  FROM unnest($6::bytea[], $7::integer[], $8::text[], $9::text[], $10::integer[]) WITH ORDINALITY
       AS u (hash, tokens, heading, text, page, position);

-- name: drop_draft
-- Remove the draft of a document for an edition.
DELETE FROM :"schema".draft AS d WHERE d.tenant = $1 AND d.document = $2 AND d.edition = $3;

-- name: read_draft
-- The draft of a version of a document for an edition.
SELECT d.attempt, d.hash, d.tokens, d.heading, d.text, d.page, d.error
  FROM :"schema".draft AS d
 WHERE d.tenant = $1 AND d.document = $2 AND d.edition = $3 AND d.version = $4
 ORDER BY d.position;

-- name: read_draft_parts
-- The texts of parts of drafts, each with the number of its part.
SELECT u.number - 1 AS part, d.hash, d.tokens, d.heading, d.text
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::integer[]) WITH ORDINALITY
       AS u (document, edition, attempt, first, last, number)
  JOIN :"schema".draft AS d ON d.document = u.document AND d.edition = u.edition
       AND d.position BETWEEN u.first AND u.last AND d.attempt = u.attempt
 WHERE d.tenant = $1 AND d.error IS NULL
 ORDER BY u.number, d.position;

-- name: list_embedded_drafts
-- Those of these drafts, by number, whose texts all have a vector.
SELECT u.number - 1 AS part
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[]) WITH ORDINALITY AS u (document, edition, attempt, number)
 CROSS JOIN LATERAL (
       SELECT array_agg(d.hash) AS hashes FROM :"schema".draft AS d
        WHERE d.tenant = $1 AND d.document = u.document AND d.edition = u.edition AND d.attempt = u.attempt) AS d
 WHERE d.hashes IS NOT NULL AND NOT EXISTS (SELECT FROM :"schema".missing_v1($1, u.edition, d.hashes));

-- name: refuse_draft_texts
-- Note why these texts of drafts will have no vector.
UPDATE :"schema".draft AS d SET error = $6
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[]) AS u (document, edition, attempt)
 WHERE d.tenant = $1 AND d.document = u.document AND d.edition = u.edition AND d.attempt = u.attempt
   AND d.hash = ANY ($5::bytea[]);
