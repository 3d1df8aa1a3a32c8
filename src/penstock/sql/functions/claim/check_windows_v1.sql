-- Return whether windows are open, and in how many seconds that changes; NULL if it never does.
-- Times are local times in the time zone of the windows. A time that the clock skips is taken an hour later; of one that
-- occurs twice, the second counts. A `to` at or before `from` is on the next day; `days` are those on which the window
-- begins. It raises no error: windows that cannot be read (an upgrade may have removed their time zone) are always open,
-- because one mistake must not keep all workers from reading their settings.
CREATE FUNCTION :"schema".check_windows_v1(p_windows jsonb, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (open boolean, changes_in double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_zone  text := coalesce(p_windows ->> 'timezone', 'UTC');
    v_open  tstzmultirange;
    v_until timestamptz;
BEGIN
    open := true;
    IF p_windows -> 'open' IS NOT NULL THEN
        -- From yesterday, whose windows may reach into today, over two weeks: a window within the hour that the clock
        -- skips is missing in one of them.
        SELECT coalesce(range_agg(tstzrange(s.starts, greatest(s.starts, s.ends))), '{}') INTO v_open
          FROM generate_series(-1, 16) AS n
         CROSS JOIN LATERAL (SELECT (v_now AT TIME ZONE v_zone)::date + n AS day) AS d
         CROSS JOIN jsonb_to_recordset(p_windows -> 'open') AS w (days integer[], "from" time, "to" time)
         CROSS JOIN LATERAL (
               SELECT (d.day + w."from") AT TIME ZONE v_zone AS starts,
                      (d.day + (w."to" <= w."from")::integer + w."to") AT TIME ZONE v_zone AS ends) AS s
         WHERE extract(isodow FROM d.day) = ANY (coalesce(w.days, '{1,2,3,4,5,6,7}'));
        open := v_open @> v_now;
        SELECT min(CASE WHEN open THEN upper(r) ELSE lower(r) END) INTO v_until
          FROM unnest(v_open) AS r WHERE CASE WHEN open THEN r @> v_now ELSE lower(r) > v_now END;
        -- Windows that stay open for more than a week never close.
        IF NOT open OR v_until - v_now <= interval '8 days' THEN
            changes_in := extract(epoch FROM v_until - v_now);
        END IF;
    END IF;
    RETURN NEXT;
EXCEPTION WHEN data_exception THEN
    open := true;
    changes_in := NULL;
    RETURN NEXT;
END
$$;
