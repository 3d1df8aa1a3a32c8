-- name: rescue
-- Take jobs back from lost workers.
SELECT id, lost FROM :"schema".rescue_v1($1);
