-- All editions of a base that is deleted.
SELECT e.id FROM :"schema".edition AS e JOIN :"schema".base AS b ON b.id = e.base AND b.deleted_at IS NOT NULL
 WHERE e.tenant = $1 AND e.base = $2 ORDER BY e.id
