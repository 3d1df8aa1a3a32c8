-- Units of a budget, all or none: NULL if they are reserved, else the seconds after which to ask again: when they
-- will have run in after those of all who were refused before, so that these come back one after the other.
-- p_share is the share of such units that is spent in the end: what comes back of them is not waited for.
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
    -- After a wait to the very moment rounding may leave it a hair below what is asked.
    IF v.opens_in = 0 AND v.level >= p_units * (1 - 1e-9) THEN
        UPDATE bucket AS b SET level = v.level - p_units, filled_at = v.filled_at, booked = v.booked WHERE b.key = p_key;
        RETURN NULL;
    END IF;
    IF v.rate = 0 THEN
        RETURN CASE WHEN v.level >= p_units THEN v.opens_in ELSE 'Infinity' END;
    END IF;
    v_opening := v.rate * v.opens_in;
    v_lacking := p_units - least(v.burst, v.level + v_opening);
    -- Whose turn has come and who lacks a little, such as what starts have taken, does not go to the end of the line.
    IF v.opens_in = 0 AND v_lacking <= p_units * 0.1 THEN
        RETURN ceil(v_lacking / v.rate * 1e6) / 1e6;
    END IF;
    -- Lost in a crash, somebody asks once more: not worth a wait for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- In units from when it opens on; more than five minutes of them are not booked.
    v_booked := greatest(v_lacking, least(coalesce(v.booked - v_opening + p_units, v_lacking), v.rate * 300));
    UPDATE bucket AS b SET level = v.level, filled_at = v.filled_at, booked = v_booked + v_opening WHERE b.key = p_key;
    RETURN v.opens_in + ceil(greatest(0, v_lacking, v_booked * least(greatest(p_share, 0), 1)) / v.rate * 1e6) / 1e6;
END
$$;
