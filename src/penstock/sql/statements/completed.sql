-- name: completed
-- Which of these attempts have completed their jobs already?
SELECT job FROM :"schema".completed_v1($1::bigint[], $2::uuid[]) AS job;
