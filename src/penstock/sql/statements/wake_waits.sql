-- name: wake_waits
-- Wake jobs whose wait for an event is over.
SELECT woken, upto, next_in FROM :"schema".wake_waits_v1($1, $2);
