-- name: list_retentions
-- How long history is kept, where somebody has set it; the general rules first.
SELECT state, days, queue, tenant FROM :"schema".retention ORDER BY queue <> '', tenant <> '', state, queue, tenant;
