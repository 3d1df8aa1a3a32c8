-- Lock a bucket and return its present level: the stored level, plus what the limit's rate has added since then.
-- A bucket that was never used is full. Without a rate there is no row to lock, but the key may be closed.
-- The time is read after the lock, so it goes back only if the server's clock was set back. What was added before
-- that stays; from then on the new time counts.
CREATE FUNCTION :"schema".fill_bucket_v1(
    p_key text, p_now timestamptz, OUT level double precision, OUT rate double precision,
    OUT burst double precision, OUT filled_at timestamptz, OUT opens_in double precision,
    OUT booked double precision
)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_bucket record;
    v_passed double precision;
BEGIN
    SELECT l.rate, l.burst INTO rate, burst FROM get_limit_v1(p_key) AS l;
    IF rate IS NULL THEN
        SELECT b.level, b.filled_at, b.closed_until, b.booked INTO v_bucket FROM bucket AS b WHERE b.key = p_key;
    ELSE
        LOOP
            SELECT b.level, b.filled_at, b.closed_until, b.booked INTO v_bucket
              FROM bucket AS b WHERE b.key = p_key FOR UPDATE;
            EXIT WHEN FOUND;
            INSERT INTO bucket (key, level, filled_at) VALUES (p_key, 'Infinity', coalesce(p_now, clock_timestamp()))
            ON CONFLICT ON CONSTRAINT bucket_pkey DO NOTHING;
        END LOOP;
    END IF;
    filled_at := coalesce(p_now, clock_timestamp());
    opens_in := greatest(0, extract(epoch FROM v_bucket.closed_until - filled_at));
    v_passed := greatest(0, extract(epoch FROM filled_at - v_bucket.filled_at));
    level := least(burst, v_bucket.level + rate * v_passed);
    -- A full bucket has enough for all who waited, unless it is closed.
    booked := CASE WHEN level < burst OR opens_in > 0 THEN v_bucket.booked - rate * v_passed END;
    IF v_bucket.filled_at > filled_at AND rate IS NOT NULL THEN
        UPDATE bucket AS b
           SET level = fill_bucket_v1.level, filled_at = fill_bucket_v1.filled_at, booked = fill_bucket_v1.booked
         WHERE b.key = p_key;
    END IF;
END
$$;
