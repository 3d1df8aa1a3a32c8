-- How far jobs are.
SELECT p.job, p.done, p.total, p.message, p.version, p.updated_at
  FROM :"schema".progress AS p WHERE p.job = ANY ($1::bigint[]);
