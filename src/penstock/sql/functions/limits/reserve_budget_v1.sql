-- Reserve units of a budget, all or none. Returns NULL if they are reserved, otherwise the seconds after which to try
-- again: by then the rate will have added them, after the units of all who were refused before. So callers come back
-- one after the other. p_share is the part of reserved units that is usually spent; nobody waits for the rest of them.
CREATE FUNCTION :"schema".reserve_budget_v1(
    p_key text, p_units double precision, p_share double precision DEFAULT 1, p_now timestamptz DEFAULT NULL
)
RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v         record;
    v_opening double precision;
    v_lacking double precision;
    v_booked  double precision;
BEGIN
    IF p_units >= 0 AND p_units < 'Infinity' THEN
        SELECT f.level, f.rate, f.burst, f.filled_at, f.opens_in, f.booked INTO v
          FROM fill_bucket_v1(p_key, p_now) AS f;
    ELSE
        RAISE EXCEPTION 'A budget gives 0 units or more, not %.', p_units USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v.rate IS NULL THEN
        RAISE EXCEPTION 'There is no budget for "%".', p_key
            USING ERRCODE = 'PS006', HINT = 'Give the key a limit with a rate and a burst first.',
                  DETAIL = json_build_array(p_key)::text;
    END IF;
    IF p_units > v.burst THEN
        RAISE EXCEPTION 'The budget "%" never holds % units: its burst is %.', p_key, p_units, v.burst
            USING ERRCODE = 'PS005', HINT = 'Raise its burst, or ask for less at once.',
                  DETAIL = json_build_array(p_key, p_units, v.burst)::text;
    END IF;
    -- After a wait until exactly the right moment, rounding may leave the level a little below the units.
    IF v.opens_in = 0 AND v.level >= p_units * (1 - 1e-9) THEN
        UPDATE bucket AS b SET level = v.level - p_units, filled_at = v.filled_at, booked = v.booked WHERE b.key = p_key;
        RETURN NULL;
    END IF;
    IF v.rate = 0 THEN
        RETURN CASE WHEN v.level >= p_units THEN v.opens_in ELSE 'Infinity' END;
    END IF;
    v_opening := v.rate * v.opens_in;
    v_lacking := p_units - least(v.burst, v.level + v_opening);
    -- A caller whose turn has come and who lacks only a little, for example what job starts have taken, keeps its turn.
    IF v.opens_in = 0 AND v_lacking <= p_units * 0.1 THEN
        RETURN ceil(v_lacking / v.rate * 1e6) / 1e6;
    END IF;
    -- If a crash loses this write, a caller tries once more. That is not worth waiting for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Counted in units from when the key opens on, and at most five minutes' worth of them.
    v_booked := greatest(v_lacking, least(coalesce(v.booked - v_opening + p_units, v_lacking), v.rate * 300));
    UPDATE bucket AS b SET level = v.level, filled_at = v.filled_at, booked = v_booked + v_opening WHERE b.key = p_key;
    RETURN v.opens_in + ceil(greatest(0, v_lacking, v_booked * least(greatest(p_share, 0), 1)) / v.rate * 1e6) / 1e6;
END
$$;
