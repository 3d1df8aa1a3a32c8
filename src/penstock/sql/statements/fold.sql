-- name: fold
-- Move what settles said about batches into their counts; finish those that are over.
SELECT moved, passed, upto, is_idle FROM :"schema".fold_v1($1::integer, $2::bigint, $3::double precision);
