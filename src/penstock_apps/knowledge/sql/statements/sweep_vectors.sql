-- Remove some vectors that were made a day ago and not published since, unless a draft waits to be; how many.
WITH gone AS (
    DELETE FROM :"schema".vector AS v
     WHERE v.ctid = ANY (ARRAY(
            SELECT o.ctid FROM :"schema".vector AS o
             WHERE o.made_at < clock_timestamp() - interval '1 day'
               AND NOT EXISTS (SELECT FROM :"schema".edition AS e JOIN :"schema".draft AS d ON d.edition = e.id AND d.hash = o.hash
                                WHERE e.tenant = o.tenant AND e.embedder = o.embedder)
             LIMIT $1))
    RETURNING 1
)
SELECT count(*) FROM gone
