-- name: remove_limit
-- Take the limit of a key away, with what was left in its bucket.
WITH removed AS (
    DELETE FROM :"schema".limit_setting AS l WHERE l.key = $1::text RETURNING l.key
), emptied AS (
    DELETE FROM :"schema".bucket AS b USING removed AS r WHERE b.key = r.key
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($2::text, session_user), 'remove_limit', r.key FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
