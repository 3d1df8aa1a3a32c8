-- name: open_bucket
-- Open the bucket of a closed key before its time. If $2 names who did it, that is written to the audit.
WITH opened AS MATERIALIZED (
    SELECT :"schema".open_bucket_v1($1::text) AS was_closed
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'open_bucket', NULL, $1::text, NULL)
      FROM opened AS o WHERE o.was_closed AND $2::text IS NOT NULL
)
SELECT o.was_closed FROM opened AS o LEFT JOIN noted ON true;

-- name: close_bucket
-- Close the bucket of a key for some seconds. If $3 names who did it, that is written to the audit.
WITH closed AS MATERIALIZED (
    SELECT :"schema".close_bucket_v1($1::text, $2::double precision) AS seconds
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($3::text, 'close_bucket', NULL, $1::text, jsonb_build_object('seconds', $2::double precision))
      FROM closed WHERE $3::text IS NOT NULL
)
SELECT c.seconds FROM closed AS c LEFT JOIN noted ON true;

-- name: list_limits
-- List limits by key.
SELECT key, slots, rate, burst FROM :"schema".limit_setting ORDER BY key;

-- name: set_limit
-- Change the settings in $2 of a key's limit; the others stay.
-- A burst that was never set is what the rate allows in a second, at least 1, and follows changes of the rate.
-- The row is merged before the insert: a row with only the changes might limit nothing, which a CHECK refuses.
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

-- name: remove_limit
-- Remove the limit of a key, with its bucket.
WITH removed AS (
    DELETE FROM :"schema".limit_setting AS l WHERE l.key = $1::text RETURNING l.key
), emptied AS (
    DELETE FROM :"schema".bucket AS b USING removed AS r WHERE b.key = r.key
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target)
    SELECT coalesce($2::text, session_user), 'remove_limit', r.key FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;
