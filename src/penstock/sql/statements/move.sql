-- name: move
-- Put claimed jobs back, each into another lane.
SELECT :"schema".move_v1($1, $2, $3);
