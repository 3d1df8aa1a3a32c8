-- name: look_at_own_place
-- Where a live job is, as a tenant may see it: under whose lease it runs, and how far it is. $1 is its id.
SELECT l.worker, coalesce(l.expires_at > statement_timestamp(), false) AS is_alive, p.done, p.total, p.message,
       NULL::double precision AS late_after, NULL::double precision AS late, statement_timestamp() AS at
  FROM (SELECT $1::bigint AS id) AS g
  LEFT JOIN :"schema".job AS j ON j.id = g.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease
  LEFT JOIN :"schema".progress AS p ON p.job = g.id;
