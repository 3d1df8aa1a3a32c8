-- name: remove_lane
-- Forget what was set for a lane; its jobs stay, and take their turns like any other.
WITH removed AS (
    DELETE FROM :"schema".lane_setting AS l WHERE l.queue = $1::text AND l.lane = $2::text RETURNING l.queue, l.lane
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($3::text, session_user), 'remove_lane', r.queue || ':' || r.lane FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
