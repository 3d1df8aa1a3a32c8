-- Forget what was counted of sources that are deleted since the last fold; a fold that goes on is waited for.
DELETE FROM :"schema".tally_change AS t USING :"schema".source AS s
 WHERE t.tenant = $1 AND t.source = ANY ($2::bigint[]) AND s.id = t.source AND s.deleted_at IS NOT NULL
