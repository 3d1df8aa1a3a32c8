-- Forget what was counted of sources since the last fold; a fold that goes on is waited for.
DELETE FROM :"schema".tally_change AS t WHERE t.tenant = $1 AND t.source = ANY ($2::bigint[])
