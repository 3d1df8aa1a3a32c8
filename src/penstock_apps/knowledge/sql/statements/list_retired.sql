-- Some editions that nobody searches any more.
SELECT e.tenant, e.id FROM :"schema".edition AS e WHERE e.state = 'retired' LIMIT $1
