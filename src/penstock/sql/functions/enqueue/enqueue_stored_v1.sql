-- Enqueue a request that was stored as JSON: a batch's callback, a schedule's job. Returns the job's id.
-- Its fields are those of a request, and missing ones have their defaults. p_meta is added to its own meta.
CREATE FUNCTION :"schema".enqueue_stored_v1(
    p_request jsonb, p_tenant text, p_meta jsonb DEFAULT NULL, p_run_at timestamptz DEFAULT NULL,
    p_now timestamptz DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT e.id FROM enqueue_v1(
        p_tasks => ARRAY[p_request ->> 'task'],
        p_args => ARRAY[coalesce(p_request -> 'args', '{}')::text],
        p_args_versions => ARRAY[(p_request ->> 'args_version')::smallint],
        p_queues => ARRAY[p_request ->> 'queue'],
        p_lanes => CASE WHEN p_request ? 'lane' THEN ARRAY[p_request ->> 'lane'] END,
        p_limits => CASE WHEN p_request ? 'limits' THEN ARRAY[p_request ->> 'limits'] END,
        p_priorities => ARRAY[(p_request ->> 'priority')::smallint],
        p_delays => ARRAY[(p_request ->> 'delay')::double precision],
        p_run_ats => ARRAY[p_run_at],
        p_max_attempts => ARRAY[(p_request ->> 'max_attempts')::integer],
        p_timeouts => ARRAY[(p_request ->> 'timeout')::double precision],
        p_tenants => ARRAY[p_tenant],
        p_subjects => ARRAY[p_request ->> 'subject'],
        p_requested_bys => ARRAY[p_request ->> 'requested_by'],
        p_tags => ARRAY[p_request ->> 'tags'],
        p_metas => ARRAY[nullif(coalesce(p_request -> 'meta', '{}') || coalesce(p_meta, '{}'), '{}')::text],
        p_retries => ARRAY[p_request ->> 'retry'],
        p_uniques => CASE WHEN p_request ? 'unique' THEN ARRAY[p_request ->> 'unique'] END,
        p_now => p_now,
        p_options => '{"notify": true}') AS e;
$$;
