-- name: list_queue_settings
-- The queues that somebody has set something for.
SELECT name, fair, coalesce(lane_key, 'tenant') AS lane_key, ageing, windows::text AS windows, late_after,
       paused_at IS NOT NULL AS paused
  FROM :"schema".queue ORDER BY name;
