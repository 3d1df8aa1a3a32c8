-- Run jobs again.
SELECT id, answer FROM :"schema".retry_v2($1::bigint[]);
