-- name: reserve
-- Units of a budget; the seconds to wait if there are too few.
SELECT :"schema".reserve_v1($1::text, $2::double precision, $3::double precision);
