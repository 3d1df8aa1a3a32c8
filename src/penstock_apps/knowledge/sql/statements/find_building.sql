-- The edition that is being built with these settings.
SELECT e.id FROM :"schema".edition AS e
 WHERE e.tenant = $1 AND e.base = $2 AND e.state = 'building' AND e.settings = $3::jsonb AND e.embedder = $4
