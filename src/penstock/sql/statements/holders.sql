-- Who holds the unique keys of jobs, and until when if that one has ended. $1 are the jobs' ids.
SELECT a.id, u.job, u.expires_at AS until
  FROM :"schema".job_all AS a
  JOIN :"schema".unique_claim AS u ON u.kind = 'unique' AND u.tenant = a.tenant AND u.key = a.unique_key
 WHERE a.id = ANY ($1::bigint[]) AND (u.expires_at <= statement_timestamp()) IS NOT TRUE;
