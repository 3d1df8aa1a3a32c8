-- Some documents of a base ($2), of a source ($3), or one ($4), with their jobs.
SELECT d.id, d.job FROM (
    SELECT b.id, b.job FROM :"schema".document AS b WHERE b.base = $2 AND b.tenant = $1
    UNION ALL
    SELECT s.id, s.job FROM :"schema".document AS s WHERE s.source = $3 AND s.tenant = $1
    UNION ALL
    SELECT o.id, o.job FROM :"schema".document AS o WHERE o.id = $4 AND o.tenant = $1) AS d
 LIMIT $5
