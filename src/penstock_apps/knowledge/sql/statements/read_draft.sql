-- How a version of a document was cut for an edition.
SELECT d.attempt, d.hash, d.tokens, d.heading, d.text, d.page, d.error
  FROM :"schema".draft AS d
 WHERE d.tenant = $1 AND d.document = $2 AND d.edition = $3 AND d.version = $4
 ORDER BY d.position
