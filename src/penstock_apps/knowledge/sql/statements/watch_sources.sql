-- How far sources are, by their ids ($2), of one tenant ($1) or of any.
SELECT s.id, s.tenant, s.name, s.batch, s.requested_by, s.ended_at, c.*
  FROM :"schema".source AS s
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(t.number), 0)::bigint AS total,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'pending'), 0)::bigint AS pending,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'processing'), 0)::bigint AS processing,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'completed'), 0)::bigint AS completed,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'skipped'), 0)::bigint AS skipped,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'failed'), 0)::bigint AS failed,
              coalesce(sum(t.number) FILTER (WHERE t.state = 'cancelled'), 0)::bigint AS cancelled
         FROM (SELECT y.state, y.number FROM :"schema".tally AS y WHERE y.source = s.id
               UNION ALL
               SELECT y.state, y.number FROM :"schema".tally_change AS y WHERE y.source = s.id) AS t) AS c
 WHERE s.id = ANY ($2::bigint[]) AND ($1::text IS NULL OR s.tenant = $1) AND s.deleted_at IS NULL
