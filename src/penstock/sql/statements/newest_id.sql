-- name: newest_id
-- The highest id that a job of this schema, $1, has got so far, whether or not it is still there; NULL if none has.
SELECT pg_sequence_last_value(s.oid) AS id
  FROM pg_class AS s
 WHERE s.relkind = 'S' AND s.relname = 'job_id_seq' AND s.relnamespace = to_regnamespace(quote_ident($1::text));
