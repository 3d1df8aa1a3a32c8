-- name: run_schedule
-- Fire a schedule now, out of turn.
SELECT :"schema".run_schedule_v1($1::text, $2::text);
