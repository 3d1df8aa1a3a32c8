-- name: set_lane
-- Change settings of a lane: those that are given ($3), while the rest stays. A time zone that Postgres does
-- not know is an error.
WITH changed AS (
    INSERT INTO :"schema".lane_setting AS l (queue, lane, weight, windows, late_after, paused_at)
    SELECT $1::text, $2::text, coalesce(n.weight, 1), n.windows, n.late_after,
           CASE WHEN $3::text::jsonb ->> 'paused' = 'true' THEN statement_timestamp() END
      FROM jsonb_populate_record(NULL:::"schema".lane_setting, $3::text::jsonb) AS n
     WHERE statement_timestamp() AT TIME ZONE coalesce($3::text::jsonb -> 'windows' ->> 'timezone', 'UTC') IS NOT NULL
    ON CONFLICT (queue, lane) DO UPDATE
       SET (weight, windows, late_after) = (
               SELECT n.weight, n.windows, n.late_after FROM jsonb_populate_record(l, $3::text::jsonb) AS n),
           paused_at = CASE $3::text::jsonb ->> 'paused'
                            WHEN 'true' THEN coalesce(l.paused_at, statement_timestamp())
                            WHEN 'false' THEN NULL ELSE l.paused_at END,
           updated_at = statement_timestamp()
    RETURNING queue, lane, weight, windows, late_after, paused_at
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($4::text, session_user), 'set_lane', c.queue || ':' || c.lane, $3::text::jsonb FROM changed AS c
)
SELECT queue, lane, weight, windows::text AS windows, late_after, paused_at IS NOT NULL AS paused FROM changed;
