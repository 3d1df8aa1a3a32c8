-- name: rescue_overtime
-- Take back jobs that outlived their timeout under a living lease.
SELECT id, lost FROM :"schema".rescue_overtime_v1($1, $2);
