-- What paths with these contents would add to a source: how many documents, and how many bytes.
SELECT count(*) FILTER (WHERE d.id IS NULL) AS documents,
       coalesce(sum(g.bytes - coalesce(d.bytes, 0)) FILTER (WHERE d.digest IS DISTINCT FROM g.digest), 0)::bigint AS bytes,
       coalesce(bool_or(d.digest IS DISTINCT FROM g.digest), false) AS changes
  FROM unnest($3::text[], $4::bytea[], $5::bigint[]) AS g (path, digest, bytes)
  LEFT JOIN :"schema".document AS d ON d.tenant = $1 AND d.source = $2 AND d.path = g.path AND d.deleted_at IS NULL
