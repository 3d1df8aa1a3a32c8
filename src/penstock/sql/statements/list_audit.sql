-- What was done, newest first.
SELECT a.id, a.at, a.actor, a.action, a.tenant, a.target, a.detail::text AS detail
  FROM :"schema".audit AS a
 WHERE ($1::text IS NULL OR a.actor = $1) AND ($2::text IS NULL OR a.action = $2) AND ($3::text IS NULL OR a.target = $3)
   AND ($4::text IS NULL OR a.tenant = $4) AND ($5::timestamptz IS NULL OR a.at >= $5)
   AND ($6::bigint IS NULL OR a.id < $6)
 ORDER BY a.id DESC
 LIMIT $7;
