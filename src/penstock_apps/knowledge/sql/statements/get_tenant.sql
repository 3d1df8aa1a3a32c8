-- What is set for a tenant, and what it has.
SELECT coalesce(t.active AND t.deleted_at IS NULL, true) AS active, coalesce(t.settings, '{}')::text AS settings,
       u.documents, u.bytes, u.chunks, u.tokens
  FROM (SELECT coalesce(sum(u.documents), 0)::bigint AS documents, coalesce(sum(u.bytes), 0)::bigint AS bytes,
               coalesce(sum(u.chunks), 0)::bigint AS chunks, coalesce(sum(u.tokens), 0)::bigint AS tokens
          FROM :"schema".usage AS u WHERE u.tenant = $1) AS u
  LEFT JOIN :"schema".tenant AS t ON t.tenant = $1
