-- Return the lane key of a job in a fair queue: its tenant, or the value that the queue's lane_key names.
CREATE FUNCTION :"schema".lane_key_v1(
    p_lane_key text, p_task text, p_tenant text, p_subject text, p_requested_by text, p_args text, p_meta text
) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN p_lane_key IS NULL OR p_lane_key = 'tenant' THEN p_tenant
                WHEN p_lane_key = 'task' THEN p_task
                WHEN p_lane_key = 'subject' THEN p_subject
                WHEN p_lane_key = 'requested_by' THEN p_requested_by
                WHEN starts_with(p_lane_key, 'args.') THEN p_args::jsonb ->> substring(p_lane_key FROM 6)
                WHEN starts_with(p_lane_key, 'meta.') THEN p_meta::jsonb ->> substring(p_lane_key FROM 6) END;
$$;
