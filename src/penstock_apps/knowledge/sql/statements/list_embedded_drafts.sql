-- Which of these drafts have a vector for each of their texts.
SELECT u.number - 1 AS part
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[]) WITH ORDINALITY AS u (document, edition, attempt, number)
 CROSS JOIN LATERAL (
       SELECT array_agg(d.hash) AS hashes FROM :"schema".draft AS d
        WHERE d.tenant = $1 AND d.document = u.document AND d.edition = u.edition AND d.attempt = u.attempt) AS d
 WHERE d.hashes IS NOT NULL AND NOT EXISTS (SELECT FROM :"schema".missing_v1($1, u.edition, d.hashes))
