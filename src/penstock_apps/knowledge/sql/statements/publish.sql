-- Let a version of a document be found.
SELECT p.answer, p.added, p.missing FROM :"schema".publish_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS p
