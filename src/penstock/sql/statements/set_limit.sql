-- name: set_limit
-- Change the limit of a key: what is given ($2), while the rest stays.
-- A burst that nobody gave is what comes in a second, at least one, and follows the rate when that changes.
-- Merged before the insert: a row with the changes alone would limit nothing, which a CHECK refuses.
WITH kept AS (
    SELECT l AS old FROM :"schema".limit_setting AS l WHERE l.key = $1::text FOR UPDATE
), wanted AS (
    SELECT n.slots, n.rate,
           CASE WHEN n.rate IS NULL THEN ($2::text::jsonb ->> 'burst')::double precision
                WHEN $2::text::jsonb -> 'burst' IS NULL AND (k.old).burst = greatest(1, (k.old).rate)
                THEN greatest(1, n.rate)
                ELSE coalesce(n.burst, greatest(1, n.rate)) END AS burst
      FROM (VALUES (1)) AS once LEFT JOIN kept AS k ON true
     CROSS JOIN LATERAL jsonb_populate_record(k.old, $2::text::jsonb) AS n
), changed AS (
    INSERT INTO :"schema".limit_setting AS l (key, slots, rate, burst)
    SELECT $1::text, w.slots, w.rate, w.burst FROM wanted AS w
    ON CONFLICT (key) DO UPDATE
       SET slots = excluded.slots, rate = excluded.rate, burst = excluded.burst,
           updated_at = statement_timestamp()
    RETURNING l.key, l.slots, l.rate, l.burst
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($3::text, session_user), 'set_limit', c.key, $2::text::jsonb FROM changed AS c
)
SELECT key, slots, rate, burst FROM changed;
