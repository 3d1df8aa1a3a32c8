-- name: states
-- The state of many jobs in one call.
SELECT a.id, a.state, a.reason, p.done, p.total, p.message
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id;
