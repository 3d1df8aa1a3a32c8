-- name: look_at_lateness
-- By how many seconds each of these jobs is later than it should be; those that are not are left out.
SELECT j.id, d.late
  FROM :"schema".job AS j
 CROSS JOIN LATERAL :"schema".late_v1(j.queue, j.lane, j.tenant, j.run_at, statement_timestamp()) AS d
 WHERE j.id = ANY ($1::bigint[]) AND d.late IS NOT NULL;
