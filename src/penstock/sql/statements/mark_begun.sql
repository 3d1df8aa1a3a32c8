-- name: mark_begun
-- Mark attempts of suspects as begun, before they begin.
SELECT token, marked FROM :"schema".mark_begun_v1($1, $2);
