-- Write down how a version of a document is cut for an edition.
INSERT INTO :"schema".draft (tenant, document, edition, version, attempt, position, hash, tokens, heading, text, page)
SELECT $1, $2, $3, $4, $5, u.position, u.hash, u.tokens, u.heading, u.text, u.page
  FROM unnest($6::bytea[], $7::integer[], $8::text[], $9::text[], $10::integer[]) WITH ORDINALITY
       AS u (hash, tokens, heading, text, page, position)
