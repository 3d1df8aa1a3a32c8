-- End jobs at once.
SELECT id, answer FROM :"schema".cancel_v1($1::bigint[], $2::text);
