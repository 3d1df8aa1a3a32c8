-- name: list_lane_settings
-- The lanes of a queue that somebody has set something for, from a name on.
SELECT queue, lane, weight, windows::text AS windows, late_after, paused_at IS NOT NULL AS paused
  FROM :"schema".lane_setting
 WHERE queue = $1::text AND ($2::text IS NULL OR lane > $2::text)
 ORDER BY lane LIMIT $3::integer;
