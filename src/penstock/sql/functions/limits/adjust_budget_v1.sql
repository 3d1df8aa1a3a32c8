-- Correct a reservation once its true cost is known: return units that were not needed, or spend more of them (a
-- negative number). The level may fall below 0; then the next wait is longer.
CREATE FUNCTION :"schema".adjust_budget_v1(p_key text, p_units double precision, p_now timestamptz DEFAULT NULL)
RETURNS void
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
    IF abs(p_units) < 'Infinity' THEN
        SELECT f.level, f.rate, f.burst, f.filled_at, f.booked INTO v FROM fill_bucket_v1(p_key, p_now) AS f;
        UPDATE bucket AS b SET level = least(v.burst, v.level + p_units), filled_at = v.filled_at,
                               booked = v.booked - p_units
         WHERE b.key = p_key AND v.rate IS NOT NULL;
    ELSE
        RAISE EXCEPTION 'A budget is corrected by a number of units, not by %.', p_units
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;
