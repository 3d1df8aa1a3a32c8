-- How many documents of a base ($2), of a source ($4) or of the whole tenant that came since a time are in each state. By
-- bases, so that the index on their time is used for each.
SELECT d.state, count(*) AS number
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
 WHERE d.tenant = $1 AND ($4::bigint IS NULL OR d.source = $4)
   AND d.base = ANY (ARRAY(SELECT b.id FROM :"schema".base AS b
                            WHERE b.tenant = $1 AND ($2::bigint IS NULL OR b.id = $2) AND b.deleted_at IS NULL))
   AND d.created_at >= clock_timestamp() - $3::interval AND d.deleted_at IS NULL
 GROUP BY d.state
