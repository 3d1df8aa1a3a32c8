-- name: elect
-- Become or stay leader.
SELECT :"schema".elect_v1($1, $2, $3);
