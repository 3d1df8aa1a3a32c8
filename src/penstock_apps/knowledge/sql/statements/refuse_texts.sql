-- Texts of drafts that will have no vector, and why.
UPDATE :"schema".draft AS d SET error = $6
  FROM unnest($2::bigint[], $3::bigint[], $4::integer[]) AS u (document, edition, attempt)
 WHERE d.tenant = $1 AND d.document = u.document AND d.edition = u.edition AND d.attempt = u.attempt
   AND d.hash = ANY ($5::bytea[])
