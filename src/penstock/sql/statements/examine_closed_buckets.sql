-- name: examine_closed_buckets
-- Buckets that are closed, those for longest first.
SELECT b.key, extract(epoch FROM b.closed_until - clock_timestamp())::double precision AS seconds
  FROM :"schema".bucket AS b
 WHERE b.closed_until > clock_timestamp()
 ORDER BY b.closed_until DESC
 LIMIT 100;
