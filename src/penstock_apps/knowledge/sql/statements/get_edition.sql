-- An edition's base and state.
SELECT e.base, e.state FROM :"schema".edition AS e WHERE e.tenant = $1 AND e.id = $2
