-- A source that documents come into stays until the end of the transaction; nothing if it is deleted. One transaction
-- after the other: each sees what those before it have put there, so that usage counts every document once.
SELECT s.id FROM :"schema".source AS s JOIN :"schema".base AS b ON b.id = s.base
 WHERE s.tenant = $1 AND s.id = $2 AND s.deleted_at IS NULL AND b.deleted_at IS NULL
   FOR NO KEY UPDATE OF s
