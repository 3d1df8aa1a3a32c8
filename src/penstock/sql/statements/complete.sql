-- name: complete
-- Hold a job for this attempt until the transaction ends, and complete it; it comes back only if that was not settled.
WITH held AS MATERIALIZED (
    SELECT $1::bigint AS id, $2::uuid AS token, :"schema".fence_v1($1::bigint, $2::uuid) AS fence
)
SELECT s.id, s.token, s.answer
  FROM held AS h, LATERAL :"schema".settle_v1(ARRAY[h.id], ARRAY[h.token], p_results => ARRAY[$3::text]) AS s;
