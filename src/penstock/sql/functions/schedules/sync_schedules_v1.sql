-- Store the schedules that a worker's code declares. p_declared is [{name, wins, definition}]. Changes made at run time
-- stay, unless the code wins. Unchanged declarations are not written. Returns the names of changed schedules.
CREATE FUNCTION :"schema".sync_schedules_v1(p_declared jsonb) RETURNS SETOF text
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v     record;
    v_old schedule;
BEGIN
    -- Always in the same order, so that workers that start at the same time do not deadlock.
    FOR v IN SELECT d.name, d.wins, d.definition
               FROM jsonb_to_recordset(p_declared) AS d (name text, wins text, definition jsonb)
              ORDER BY d.name COLLATE "C" LOOP
        SELECT s.* INTO v_old FROM schedule AS s WHERE s.name = v.name;
        IF NOT FOUND THEN
            INSERT INTO schedule (name, tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request,
                                  wins, declared)
            SELECT v.name, n.tenant, n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start,
                   n.request, v.wins, v.definition
              FROM jsonb_populate_record(NULL::schedule, v.definition) AS n
            ON CONFLICT (name) DO NOTHING;
        ELSIF v.wins = 'runtime' AND (v_old.edited_at IS NOT NULL OR v_old.declared IS NULL) THEN
            UPDATE schedule AS s
               SET declared = v.definition, wins = v.wins, edited_at = coalesce(s.edited_at, statement_timestamp())
             WHERE s.name = v.name AND (s.declared, s.wins) IS DISTINCT FROM (v.definition, v.wins);
        ELSE
            UPDATE schedule AS s
               SET (tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request) = (
                       SELECT n.tenant, n.cron, n.every, n.timezone, n.jitter, n.overlap, n.catch_up, n.on_start,
                              n.request
                         FROM jsonb_populate_record(s, v.definition) AS n),
                   declared = v.definition, wins = v.wins, edited_at = NULL
             WHERE s.name = v.name
               AND (s.edited_at IS NOT NULL OR (s.declared, s.wins) IS DISTINCT FROM (v.definition, v.wins));
        END IF;
        IF FOUND THEN
            RETURN NEXT v.name;
        END IF;
    END LOOP;
END
$$;
