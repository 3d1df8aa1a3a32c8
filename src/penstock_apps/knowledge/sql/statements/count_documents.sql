-- How many documents are in each state, of a source ($2), of a base ($3) or of the whole tenant; none of what is deleted.
SELECT c.state, sum(c.number)::bigint AS number
  FROM (SELECT t.source, t.state, t.number FROM :"schema".tally AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)
        UNION ALL
        SELECT t.source, t.state, t.number FROM :"schema".tally_change AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)) AS c
  JOIN :"schema".source AS s ON s.id = c.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 GROUP BY c.state
