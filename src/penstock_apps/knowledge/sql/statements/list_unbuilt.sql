-- Some documents of a base ($2) that can be found and are not in an edition ($3), after one ($4). Those of which another
-- version is on its way ($6) come into it by that.
SELECT d.id, d.path, d.version, d.bytes FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.base = $2 AND d.id > $4 AND d.published IS NOT NULL AND d.chunks > 0 AND d.deleted_at IS NULL
   AND (d.state IN ('pending', 'processing')) = $6
   AND NOT EXISTS (SELECT FROM :"schema".passage AS p WHERE p.document = d.id AND p.edition = $3)
 ORDER BY d.id
 LIMIT $5
