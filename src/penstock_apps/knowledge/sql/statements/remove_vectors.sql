-- Remove some vectors of a tenant; how many.
WITH gone AS (
    DELETE FROM :"schema".vector AS v
     WHERE v.tenant = $1 AND v.ctid = ANY (ARRAY(SELECT o.ctid FROM :"schema".vector AS o WHERE o.tenant = $1 LIMIT $2))
    RETURNING 1
)
SELECT count(*) FROM gone
