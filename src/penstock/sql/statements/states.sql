-- The state of many jobs in one call.
SELECT a.id, a.state, a.reason, p.done, p.total, p.message
  FROM :"schema".job_all AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id
 WHERE a.id = ANY ($1::bigint[]);
