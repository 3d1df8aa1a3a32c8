-- All editions of a base.
SELECT e.id, e.state FROM :"schema".edition AS e WHERE e.tenant = $1 AND e.base = $2 ORDER BY e.id
