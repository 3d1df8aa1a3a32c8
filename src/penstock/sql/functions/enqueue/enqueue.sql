-- Enqueue one job from plain SQL, for people and other languages. It calls the newest version.
CREATE FUNCTION :"schema".enqueue(
    task text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    timeout double precision DEFAULT 3600, tenant text DEFAULT '', subject text DEFAULT NULL,
    requested_by text DEFAULT NULL, tags text[] DEFAULT NULL, meta jsonb DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, args_version integer DEFAULT 1, lane text DEFAULT NULL,
    limits text[] DEFAULT NULL, batch bigint DEFAULT NULL, unique_key text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT e.id FROM enqueue_v1(
        p_tasks => ARRAY[task], p_args => ARRAY[args::text], p_queues => ARRAY[queue], p_lanes => ARRAY[lane],
        p_limits => ARRAY[to_jsonb(limits)::text],
        p_args_versions => ARRAY[args_version::smallint],
        p_priorities => ARRAY[priority::smallint],
        p_delays => ARRAY[extract(epoch FROM delay)::double precision],
        p_run_ats => ARRAY[run_at], p_max_attempts => ARRAY[max_attempts],
        p_timeouts => ARRAY[timeout], p_tenants => ARRAY[tenant], p_subjects => ARRAY[subject],
        p_requested_bys => ARRAY[requested_by], p_tags => ARRAY[to_jsonb(tags)::text],
        p_metas => ARRAY[meta::text], p_deadlines => ARRAY[deadline], p_batch => batch,
        p_uniques => CASE WHEN unique_key IS NOT NULL THEN ARRAY[json_build_object('key', unique_key)::text] END,
        p_options => '{"notify": true}') AS e;
$$;
