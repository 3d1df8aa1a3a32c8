-- Erase jobs that do not run.
SELECT id, answer FROM :"schema".delete_v3($1::bigint[]);
