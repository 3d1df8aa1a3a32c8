-- Erase dead letters.
SELECT id, answer FROM :"schema".purge_v1($1::bigint[]);
