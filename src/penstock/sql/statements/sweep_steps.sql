-- name: sweep_steps
-- Remove the steps of jobs that are gone, from one job on.
SELECT swept, upto FROM :"schema".sweep_steps_v1($1, $2);
