-- name: holders
-- Who holds the unique keys of jobs, and until when if that one has ended. $1 are the jobs' ids.
SELECT a.id, u.job, u.expires_at AS until
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  JOIN :"schema".unique_claim AS u ON u.kind = 'unique' AND u.tenant = a.tenant AND u.key = a.unique_key
 WHERE (u.expires_at <= statement_timestamp()) IS NOT TRUE;
