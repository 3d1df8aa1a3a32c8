-- Of some sources ($2) those of which at least half of the documents, looked at up to a number ($4), are the same files as
-- documents of others ($3).
SELECT s.id
  FROM unnest($2::bigint[]) AS s (id)
 CROSS JOIN LATERAL (
       SELECT count(*) AS seen,
              count(*) FILTER (WHERE EXISTS (SELECT FROM :"schema".document AS o
                                              WHERE o.tenant = $1 AND o.digest = d.digest AND o.source = ANY ($3::bigint[])
                                                AND o.deleted_at IS NULL)) AS same
         FROM (SELECT w.digest FROM :"schema".document AS w
                WHERE w.tenant = $1 AND w.source = s.id AND w.deleted_at IS NULL LIMIT $4) AS d) AS c
 WHERE c.seen > 0 AND 2 * c.same >= c.seen
