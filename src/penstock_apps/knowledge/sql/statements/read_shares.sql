-- The texts of parts of drafts, each with the number of its part.
SELECT u.number - 1 AS part, d.hash, d.tokens, d.heading, d.text
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::integer[]) WITH ORDINALITY
       AS u (document, edition, attempt, first, last, number)
  JOIN :"schema".draft AS d ON d.document = u.document AND d.edition = u.edition
       AND d.position BETWEEN u.first AND u.last AND d.attempt = u.attempt
 WHERE d.tenant = $1 AND d.error IS NULL
 ORDER BY u.number, d.position
