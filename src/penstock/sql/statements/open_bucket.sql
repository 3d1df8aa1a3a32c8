-- Open the bucket of a key that was closed for a while.
SELECT :"schema".open_bucket_v1($1::text);
