-- name: promote
-- Make due jobs ready.
SELECT promoted, mark, next_in FROM :"schema".promote_v1($1, $2);
