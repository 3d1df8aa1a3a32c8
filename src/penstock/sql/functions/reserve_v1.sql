-- Units of a budget, all or none: NULL if they are reserved, else the seconds after which to ask again.
CREATE FUNCTION :"schema".reserve_v1(p_key text, p_units double precision, p_now timestamptz DEFAULT NULL)
RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v record;
BEGIN
    IF p_units >= 0 AND p_units < 'Infinity' THEN
        SELECT f.level, f.rate, f.burst, f.filled_at, f.opens_in INTO v FROM fill_bucket_v1(p_key, p_now) AS f;
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
    IF v.opens_in > 0 OR v.level < p_units * (1 - 1e-9) THEN
        RETURN greatest(v.opens_in, CASE WHEN v.level >= p_units THEN 0
                                         WHEN v.rate = 0 THEN 'Infinity'
                                         ELSE ceil((p_units - v.level) / v.rate * 1e6) / 1e6 END);
    END IF;
    UPDATE bucket AS b SET level = v.level - p_units, filled_at = v.filled_at WHERE b.key = p_key;
    RETURN NULL;
END
$$;
