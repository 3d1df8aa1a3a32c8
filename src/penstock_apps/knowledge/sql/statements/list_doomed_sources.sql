-- Some sources of a base that is deleted.
SELECT s.id FROM :"schema".source AS s WHERE s.tenant = $1 AND s.base = $2 AND s.deleted_at IS NOT NULL LIMIT $3
