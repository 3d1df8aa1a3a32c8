-- Return the text of a lane: its lane key, then the keys of the limits of its jobs, in order, each after a unit separator
-- (U+001F), which no name may contain.
CREATE FUNCTION :"schema".lane_v1(p_turn text, p_limits text, p_task_key text) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT replace(left(p_turn, 200), E'\x1f', ' ') || CASE WHEN p_limits IS NULL AND p_task_key IS NULL THEN '' ELSE
        (SELECT coalesce(string_agg(E'\x1f' || k.key, '' ORDER BY k.key COLLATE "C"), '')
           FROM (SELECT replace(e.key, E'\x1f', ' ') AS key FROM jsonb_array_elements_text(p_limits::jsonb) AS e (key)
                 UNION SELECT p_task_key WHERE p_task_key IS NOT NULL) AS k) END;
$$;
