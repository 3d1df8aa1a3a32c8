-- How many documents of a base that came since a time are in each state.
SELECT d.state, count(*) AS number
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.base = $2 AND d.created_at >= clock_timestamp() - $3::interval AND d.deleted_at IS NULL
 GROUP BY d.state
