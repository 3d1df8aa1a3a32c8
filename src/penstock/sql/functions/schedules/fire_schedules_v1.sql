-- Fire schedules. p_fires is [{name, version, start, missed, missed_ticks, ticks, next_at}], computed from the result
-- of list_due_schedules_v1. If one fails, its answer is the error, and the others fire all the same.
CREATE FUNCTION :"schema".fire_schedules_v1(p_fires jsonb, p_now timestamptz DEFAULT NULL)
RETURNS TABLE (name text, answer text)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v record;
BEGIN
    PERFORM commit_durably_v1();
    FOR v IN SELECT f.name, f.version, f.start, f.missed, f.missed_ticks, f.ticks, f.next_at
               FROM jsonb_to_recordset(p_fires) AS f (
                    name text, version bigint, start timestamptz, missed timestamptz, missed_ticks integer,
                    ticks timestamptz[], next_at timestamptz) LOOP
        name := v.name;
        BEGIN
            answer := fire_schedule_v1(v.name, v.version, v.start, v.missed, v.missed_ticks, v.ticks, v.next_at, p_now);
        EXCEPTION WHEN OTHERS THEN
            answer := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
