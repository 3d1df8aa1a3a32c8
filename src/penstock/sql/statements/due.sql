-- name: due
-- The schedules that have something to do, and when the next one has.
SELECT :"schema".due_v1($1::integer, $2::text[])::text;
