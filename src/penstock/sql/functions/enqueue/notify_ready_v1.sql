-- Notify workers that jobs of one lane and priority became ready, and from which ready_at on.
CREATE FUNCTION :"schema".notify_ready_v1(
    p_queue text, p_lane text, p_priority smallint, p_ready_at timestamptz
) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT pg_notify(
        current_schema() || '.ready',
        json_build_array(p_queue, p_lane, p_priority, extract(epoch FROM p_ready_at))::text
    );
$$;
