-- name: close_bucket
-- Let nobody take from the bucket of a key for some seconds.
SELECT :"schema".close_bucket_v1($1::text, $2::double precision);
