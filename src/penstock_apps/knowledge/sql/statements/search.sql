-- name: search_chunks
-- The best chunks for a question.
SELECT * FROM :"schema".search_v1($1, $2, $3, $4, $5, $6, $7);

-- name: find_searched_editions
-- The editions in which sources ($2) are searched.
SELECT DISTINCT b.edition FROM :"schema".source AS s JOIN :"schema".base AS b ON b.id = s.base AND b.deleted_at IS NULL
 WHERE s.tenant = $1 AND s.id = ANY ($2);
