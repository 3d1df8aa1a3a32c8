-- Some documents with their jobs: of a base that is deleted ($2), of a source that is ($3), or one that is itself ($4).
SELECT d.id, d.job FROM (
    SELECT b.id, b.job FROM :"schema".document AS b JOIN :"schema".base AS m ON m.id = b.base AND m.deleted_at IS NOT NULL
     WHERE b.base = $2 AND b.tenant = $1
    UNION ALL
    SELECT s.id, s.job FROM :"schema".document AS s JOIN :"schema".source AS m ON m.id = s.source AND m.deleted_at IS NOT NULL
     WHERE s.source = $3 AND s.tenant = $1
    UNION ALL
    SELECT o.id, o.job FROM :"schema".document AS o WHERE o.id = $4 AND o.tenant = $1 AND o.deleted_at IS NOT NULL) AS d
 LIMIT $5
