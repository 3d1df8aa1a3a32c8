-- Those uploads are over.
UPDATE :"schema".object AS o SET holds = greatest(0, o.holds - 1)
  FROM (SELECT u.digest FROM unnest($2::bytea[]) AS u (digest) GROUP BY u.digest ORDER BY u.digest) AS u
 WHERE o.tenant = $1 AND o.digest = u.digest
RETURNING o.digest
