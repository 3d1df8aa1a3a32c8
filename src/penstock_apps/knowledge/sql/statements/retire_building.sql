-- An edition that is being built is not wanted any more, if it is another one ($3).
UPDATE :"schema".edition AS e SET state = 'retired'
 WHERE e.tenant = $1 AND e.base = $2 AND e.state = 'building' AND e.id IS DISTINCT FROM $3
