-- The sources of a base that is deleted are deleted: some of those that are not yet. Their number.
WITH marked AS (
    UPDATE :"schema".source AS s SET deleted_at = clock_timestamp()
     WHERE s.id = ANY (ARRAY(
            SELECT o.id FROM :"schema".source AS o JOIN :"schema".base AS b ON b.id = o.base AND b.deleted_at IS NOT NULL
             WHERE o.base = $2 AND o.tenant = $1 AND o.deleted_at IS NULL ORDER BY o.id LIMIT $3))
    RETURNING s.id
)
SELECT count(*) FROM marked
