-- name: set_queue
-- Change settings of a queue: those that are given ($2), while the rest stays. A time zone that Postgres does
-- not know is an error.
WITH changed AS (
    INSERT INTO :"schema".queue AS q (name, fair, lane_key, ageing, windows, late_after)
    SELECT $1::text, coalesce(n.fair, false), n.lane_key, n.ageing, n.windows, n.late_after
      FROM jsonb_populate_record(NULL:::"schema".queue, $2::text::jsonb) AS n
     WHERE statement_timestamp() AT TIME ZONE coalesce($2::text::jsonb -> 'windows' ->> 'timezone', 'UTC') IS NOT NULL
    ON CONFLICT (name) DO UPDATE
       SET (fair, lane_key, ageing, windows, late_after) = (
               SELECT n.fair, n.lane_key, n.ageing, n.windows, n.late_after
                 FROM jsonb_populate_record(q, $2::text::jsonb) AS n),
           updated_at = statement_timestamp()
    RETURNING name, fair, lane_key, ageing, windows, late_after, paused_at
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($3::text, session_user), 'set_queue', c.name, $2::text::jsonb FROM changed AS c
)
SELECT name, fair, coalesce(lane_key, 'tenant') AS lane_key, ageing, windows::text AS windows, late_after,
       paused_at IS NOT NULL AS paused
  FROM changed;
