-- A base that a source comes into stays until the end of the transaction; nothing if it is deleted.
SELECT b.id FROM :"schema".base AS b WHERE b.tenant = $1 AND b.id = $2 AND b.deleted_at IS NULL FOR SHARE OF b
