-- How many documents of each base of a tenant are in which state, and how many chunks they have; none of what is deleted.
SELECT d.base, d.state, count(*) AS number, sum(d.chunks)::bigint AS chunks
  FROM :"schema".document AS d
  JOIN :"schema".source AS s ON s.id = d.source AND s.deleted_at IS NULL
  JOIN :"schema".base AS b ON b.id = d.base AND b.deleted_at IS NULL
 WHERE d.tenant = $1 AND d.deleted_at IS NULL
 GROUP BY d.base, d.state
