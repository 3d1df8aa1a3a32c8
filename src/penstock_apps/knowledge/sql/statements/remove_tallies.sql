-- Forget what was counted of sources.
DELETE FROM :"schema".tally AS t WHERE t.tenant = $1 AND t.source = ANY ($2::bigint[])
