-- Erase jobs that do not run.
SELECT id, answer FROM :"schema".delete_v1($1::bigint[]);
