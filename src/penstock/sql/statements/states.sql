-- The state of many jobs in one call.
-- The ids by a subquery: so a plan for one costs no less than for any, and is kept. Each day of history is planned.
SELECT a.id, a.state, a.reason, p.done, p.total, p.message
  FROM :"schema".job_all AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id
 WHERE a.id = ANY (ARRAY(SELECT unnest($1::bigint[])));
