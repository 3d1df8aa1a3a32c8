-- name: progress
-- Record how far attempts are; the refused come back.
SELECT job FROM :"schema".progress_v1($1, $2, $3, $4, $5) AS job;
