-- Take tokens for job starts: for each key up to the number wanted. A negative number gives tokens back.
-- wait is how many seconds it takes until the next token: 0 if there was one, infinity if the rate is 0. It is in
-- whole microseconds, the resolution of the clock.
-- A key without a rate gives all that is wanted. A closed one gives nothing, whatever its level.
CREATE FUNCTION :"schema".take_tokens_v1(p_keys text[], p_wants integer[], p_now timestamptz DEFAULT NULL)
RETURNS TABLE (key text, got integer, wait double precision)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_want integer;
    v      record;
BEGIN
    -- If a crash loses this write, the bucket is a little too full. That is not worth waiting for the disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    -- Keys are locked in order, so that two callers with the same keys do not wait for each other.
    FOR key, v_want IN
        SELECT k.key COLLATE "C", sum(k.want) FROM unnest(p_keys, p_wants) AS k (key, want) GROUP BY 1 ORDER BY 1
    LOOP
        SELECT f.level, f.rate, f.burst, f.filled_at, f.opens_in, f.booked INTO v FROM fill_bucket_v1(key, p_now) AS f;
        IF v_want < 0 THEN
            got := v_want;
        ELSIF v.opens_in > 0 THEN
            got := 0;
        ELSIF v.rate IS NULL THEN
            got := v_want;
        ELSE
            -- After a wait until exactly the right moment, rounding may leave the level a little below a token.
            got := greatest(0, least(v_want, floor(v.level + 1e-9)));
        END IF;
        wait := CASE WHEN got <> 0 THEN 0
                     ELSE greatest(v.opens_in, CASE WHEN v.level >= 1 - 1e-9 OR v.rate IS NULL THEN 0
                                                    WHEN v.rate = 0 OR v.burst < 1 THEN 'Infinity'
                                                    ELSE ceil((1 - v.level) / v.rate * 1e6) / 1e6 END) END;
        IF got <> 0 AND v.rate IS NOT NULL THEN
            UPDATE bucket AS b SET level = least(v.burst, v.level - got), filled_at = v.filled_at, booked = v.booked
             WHERE b.key = take_tokens_v1.key;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
