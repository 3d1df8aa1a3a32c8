-- The source of a base that has a key.
SELECT s.id FROM :"schema".source AS s
 WHERE s.tenant = $1 AND s.base = $2 AND s.kind = $3 AND s.key = $4 AND s.deleted_at IS NULL
