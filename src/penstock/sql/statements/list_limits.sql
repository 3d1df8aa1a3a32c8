-- name: list_limits
-- The limits by their keys.
SELECT key, slots, rate, burst FROM :"schema".limit_setting ORDER BY key;
