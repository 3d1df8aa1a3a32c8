-- name: correct
-- Give back units of a budget that were not needed, or spend more.
SELECT :"schema".correct_v1($1::text, $2::double precision);
