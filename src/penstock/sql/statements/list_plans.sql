-- name: list_plans
-- The plans by their names.
SELECT name, priority, weight, late_after FROM :"schema".plan ORDER BY name;
