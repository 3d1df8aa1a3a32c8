-- Erase jobs that do not run.
SELECT id, answer FROM :"schema".delete_v2($1::bigint[]);
