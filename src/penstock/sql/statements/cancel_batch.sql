-- name: cancel_batch
-- End some jobs of a batch, behind an id: how many were found, how many cancelled, and the last one's id.
SELECT c.found, c.cancelled, c.last FROM :"schema".cancel_batch_v1($1::bigint, $2::bigint, $3::integer, $4::text) AS c;
