-- How many documents are in each state, of a source ($2), of a base ($3) or of the whole tenant.
SELECT c.state, sum(c.number)::bigint AS number
  FROM (SELECT t.state, t.number FROM :"schema".tally AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)
        UNION ALL
        SELECT t.state, t.number FROM :"schema".tally_change AS t
         WHERE t.tenant = $1 AND ($2::bigint IS NULL OR t.source = $2) AND ($3::bigint IS NULL OR t.base = $3)) AS c
 GROUP BY c.state
