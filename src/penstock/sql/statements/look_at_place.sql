-- name: look_at_place
-- Where a live job is: under whose lease it runs, how far it is, and whether it is late. $1 is its id.
SELECT l.worker, coalesce(l.expires_at > statement_timestamp(), false) AS is_alive, p.done, p.total, p.message,
       d.late_after, d.late, statement_timestamp() AS at
  FROM (SELECT $1::bigint AS id) AS g
  LEFT JOIN :"schema".job AS j ON j.id = g.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  LEFT JOIN :"schema".progress AS p ON p.job = g.id
 CROSS JOIN LATERAL :"schema".late_v1(j.queue, j.lane, j.tenant, j.run_at, statement_timestamp()) AS d;
