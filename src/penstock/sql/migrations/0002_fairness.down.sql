-- Back to one lane a queue and no limits. Jobs stay where they are: their lanes are worked off all the same.
DROP TRIGGER queue_tells_workers ON :"schema".queue;
DROP TRIGGER lane_setting_tells_workers ON :"schema".lane_setting;
DROP TRIGGER limit_setting_tells_workers ON :"schema".limit_setting;
DROP FUNCTION :"schema".unserved_v1, :"schema".rules_v1, :"schema".rules_version_v1, :"schema".is_paused_v1,
    :"schema".delete_v2, :"schema".drop_partition_v1, :"schema".ensure_partitions_v2, :"schema".move_v1,
    :"schema".sweep_v2, :"schema".open_bucket_v1, :"schema".close_bucket_v1, :"schema".correct_v1, :"schema".reserve_v1,
    :"schema".take_v1, :"schema".fill_bucket_v1, :"schema".close_lease_v2, :"schema".grant_v1, :"schema".lock_grants_v1,
    :"schema".late_v1, :"schema".window_v1, :"schema".claim_v2, :"schema".scan_lines_v2, :"schema".enqueue, :"schema".enqueue_v2,
    :"schema".announce_v2, :"schema".place_v1, :"schema".lane_v1, :"schema".lane_key_v1, :"schema".limit_v1;
-- For people and for other languages: enqueue one job from plain SQL. Forwards to the newest version.
CREATE FUNCTION :"schema".enqueue(
    task text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    timeout double precision DEFAULT 3600, tenant text DEFAULT '', subject text DEFAULT NULL,
    requested_by text DEFAULT NULL, tags text[] DEFAULT NULL, meta jsonb DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, args_version integer DEFAULT 1
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT e.id FROM enqueue_v1(
        p_tasks => ARRAY[task], p_args => ARRAY[args::text], p_queues => ARRAY[queue],
        p_args_versions => ARRAY[args_version::smallint],
        p_priorities => ARRAY[priority::smallint],
        p_delays => ARRAY[extract(epoch FROM delay)::double precision],
        p_run_ats => ARRAY[run_at], p_max_attempts => ARRAY[max_attempts],
        p_timeouts => ARRAY[timeout], p_tenants => ARRAY[tenant], p_subjects => ARRAY[subject],
        p_requested_bys => ARRAY[requested_by], p_tags => ARRAY[to_jsonb(tags)::text],
        p_metas => ARRAY[meta::text], p_deadlines => ARRAY[deadline],
        p_options => '{"notify": true}') AS e;
$$;

DROP TABLE :"schema".setting_version, :"schema".bucket, :"schema".tenant_setting, :"schema".plan;
DROP FUNCTION :"schema".settings_changed_v1;
DROP INDEX :"schema".grant_lease;
DELETE FROM :"schema"."grant" WHERE slots = 0;
ALTER TABLE :"schema"."grant" DROP CONSTRAINT grant_slots_not_negative, DROP COLUMN wanted,
    ADD CONSTRAINT grant_slots_positive CHECK (slots > 0);
CREATE TABLE :"schema".concurrency_limit (
    key         text COLLATE "C" NOT NULL,
    slots       integer     NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT concurrency_limit_pkey PRIMARY KEY (key),
    CONSTRAINT concurrency_limit_slots_not_negative CHECK (slots >= 0)
);
INSERT INTO :"schema".concurrency_limit (key, slots, updated_at)
SELECT key, slots, updated_at FROM :"schema".limit_setting WHERE slots IS NOT NULL;
DROP TABLE :"schema".limit_setting;
ALTER TABLE :"schema".lane_setting
    DROP CONSTRAINT lane_setting_windows_is_object, DROP CONSTRAINT lane_setting_weight_in_range,
    DROP COLUMN late_after;
ALTER TABLE :"schema".queue DROP COLUMN windows, DROP COLUMN ageing, DROP COLUMN late_after,
    DROP CONSTRAINT queue_lane_key_known;
