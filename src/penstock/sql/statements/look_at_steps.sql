-- name: look_at_steps
-- What a job has kept, in order: its steps, sleeps, events and polls; how large each result is.
SELECT s.kind, s.name, s.created_at, octet_length(s.result::text) AS size,
       CASE WHEN s.kind <> 'step' THEN s.result::text END AS result
  FROM :"schema".step AS s
 WHERE s.job = $1
 ORDER BY s.created_at, s.kind, s.name
 LIMIT $2;
