-- Let an edition be the one that is searched; the one before is retired.
WITH changed AS (
    UPDATE :"schema".edition AS e SET state = CASE WHEN e.id = $2 THEN 'live' ELSE 'retired' END
     WHERE e.base = $1 AND e.state IN ('live', 'building')
)
UPDATE :"schema".base AS b SET edition = $2 WHERE b.id = $1 AND b.deleted_at IS NULL
