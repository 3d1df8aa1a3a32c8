-- Remove an edition; all that was in it is gone.
DELETE FROM :"schema".edition AS e WHERE e.tenant = $1 AND e.id = $2
