-- Run jobs again.
SELECT id, answer FROM :"schema".retry_v1($1::bigint[]);
