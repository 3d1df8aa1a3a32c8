-- name: sweep_fires
-- Forget what came of old ticks.
SELECT :"schema".sweep_fires_v1($1::integer);
