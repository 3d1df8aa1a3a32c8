-- name: expire
-- End waiting jobs past their deadline.
SELECT :"schema".expire_v1($1);
