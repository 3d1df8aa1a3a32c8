-- The batch that builds an edition, and why it is not whole.
UPDATE :"schema".edition AS e SET batch = coalesce($3, e.batch), error = $4 WHERE e.tenant = $1 AND e.id = $2
