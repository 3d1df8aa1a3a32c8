SELECT e.dimensions FROM :"schema".edition AS e WHERE e.id = $1
