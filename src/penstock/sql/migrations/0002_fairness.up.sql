-- Fairness, limits, tenants: what a queue, a lane, a key and a tenant may take, and when.

ALTER TABLE :"schema".queue
    ADD COLUMN windows jsonb,
    ADD COLUMN ageing double precision,
    ADD COLUMN late_after double precision,
    ADD CONSTRAINT queue_ageing_positive CHECK (ageing > 0),
    ADD CONSTRAINT queue_late_after_positive CHECK (late_after > 0),
    ADD CONSTRAINT queue_windows_is_object CHECK (jsonb_typeof(windows) = 'object'),
    ADD CONSTRAINT queue_lane_key_known
        CHECK (lane_key IN ('tenant', 'task', 'subject', 'requested_by') OR lane_key ~ '^(args|meta)[.].+');

ALTER TABLE :"schema".lane_setting
    ADD COLUMN late_after double precision,
    ADD CONSTRAINT lane_setting_late_after_positive CHECK (late_after > 0),
    ADD CONSTRAINT lane_setting_weight_in_range CHECK (weight <= 1000),
    ADD CONSTRAINT lane_setting_windows_is_object CHECK (jsonb_typeof(windows) = 'object');

-- What tenants pay for: a priority that is added to their jobs' own, and how many turns their lanes get.
CREATE TABLE :"schema".plan (
    name        text COLLATE "C" NOT NULL,
    priority    smallint    NOT NULL DEFAULT 0,
    weight      integer     NOT NULL DEFAULT 1,
    late_after  double precision,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT plan_pkey PRIMARY KEY (name),
    CONSTRAINT plan_priority_in_range CHECK (priority BETWEEN -100 AND 100),
    CONSTRAINT plan_weight_in_range CHECK (weight BETWEEN 1 AND 1000),
    CONSTRAINT plan_late_after_positive CHECK (late_after > 0)
);

CREATE TABLE :"schema".tenant_setting (
    tenant      text COLLATE "C" NOT NULL,
    plan        text COLLATE "C",
    late_after  double precision,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT tenant_setting_pkey PRIMARY KEY (tenant),
    CONSTRAINT tenant_setting_late_after_positive CHECK (late_after > 0)
);

-- How many jobs of a key may run at once (slots), how many may start in a second (rate) and at once after a
-- quiet time (burst). A key that ends in * holds for each key that begins so, by itself.
CREATE TABLE :"schema".limit_setting (
    key         text COLLATE "C" NOT NULL,
    slots       integer,
    rate        double precision,
    burst       double precision,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT limit_setting_pkey PRIMARY KEY (key),
    CONSTRAINT limit_setting_slots_not_negative CHECK (slots >= 0),
    CONSTRAINT limit_setting_rate_not_negative CHECK (rate >= 0),
    CONSTRAINT limit_setting_burst_with_rate CHECK ((rate IS NULL) = (burst IS NULL) AND burst > 0),
    CONSTRAINT limit_setting_limits_something CHECK (slots IS NOT NULL OR rate IS NOT NULL)
);
INSERT INTO :"schema".limit_setting (key, slots, updated_at)
SELECT key, slots, updated_at FROM :"schema".concurrency_limit;
DROP TABLE :"schema".concurrency_limit;

-- A row without slots stands for a worker that waits for some.
ALTER TABLE :"schema"."grant"
    DROP CONSTRAINT grant_slots_positive,
    ADD COLUMN wanted integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT grant_slots_not_negative CHECK (slots >= 0 AND wanted >= 0 AND slots + wanted > 0);
CREATE INDEX grant_lease ON :"schema"."grant" (lease);

-- What is left of a rate or a budget: level at filled_at, more since then by its limit's rate.
-- booked are the units that must come in after filled_at for all who were refused; NULL: nobody waits.
CREATE TABLE :"schema".bucket (
    key           text COLLATE "C" NOT NULL,
    level         double precision NOT NULL,
    filled_at     timestamptz      NOT NULL,
    closed_until  timestamptz,
    booked        double precision,
    CONSTRAINT bucket_pkey PRIMARY KEY (key)
) WITH (fillfactor = 50);

-- One row that says whether settings have changed since somebody read them, and whether any of them decides
-- on where new jobs go.
CREATE TABLE :"schema".setting_version (
    version  bigint  NOT NULL DEFAULT 1,
    places   boolean NOT NULL DEFAULT false,
    is_only  boolean NOT NULL DEFAULT true,
    CONSTRAINT setting_version_pkey PRIMARY KEY (is_only),
    CONSTRAINT setting_version_is_one_row CHECK (is_only)
) WITH (fillfactor = 50);
INSERT INTO :"schema".setting_version DEFAULT VALUES;

\ir ../functions/settings_changed_v1.sql
\ir ../functions/limit_v1.sql
\ir ../functions/lane_key_v1.sql
\ir ../functions/lane_v1.sql
\ir ../functions/place_v1.sql
\ir ../functions/announce_v2.sql
\ir ../functions/enqueue_v2.sql
DROP FUNCTION :"schema".enqueue;
-- For people and for other languages: enqueue one job from plain SQL. Forwards to the newest version.
CREATE FUNCTION :"schema".enqueue(
    task text, args jsonb DEFAULT '{}', queue text DEFAULT 'default', priority integer DEFAULT 0,
    delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, max_attempts integer DEFAULT 5,
    timeout double precision DEFAULT 3600, tenant text DEFAULT '', subject text DEFAULT NULL,
    requested_by text DEFAULT NULL, tags text[] DEFAULT NULL, meta jsonb DEFAULT NULL,
    deadline timestamptz DEFAULT NULL, args_version integer DEFAULT 1, lane text DEFAULT NULL,
    limits text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT e.id FROM enqueue_v2(
        p_tasks => ARRAY[task], p_args => ARRAY[args::text], p_queues => ARRAY[queue], p_lanes => ARRAY[lane],
        p_limits => ARRAY[to_jsonb(limits)::text],
        p_args_versions => ARRAY[args_version::smallint],
        p_priorities => ARRAY[priority::smallint],
        p_delays => ARRAY[extract(epoch FROM delay)::double precision],
        p_run_ats => ARRAY[run_at], p_max_attempts => ARRAY[max_attempts],
        p_timeouts => ARRAY[timeout], p_tenants => ARRAY[tenant], p_subjects => ARRAY[subject],
        p_requested_bys => ARRAY[requested_by], p_tags => ARRAY[to_jsonb(tags)::text],
        p_metas => ARRAY[meta::text], p_deadlines => ARRAY[deadline],
        p_options => '{"notify": true}') AS e;
$$;
\ir ../functions/scan_lines_v2.sql
\ir ../functions/claim_v2.sql
\ir ../functions/move_v1.sql
-- (functions of grants, buckets, windows, late)
\ir ../functions/lock_grants_v1.sql
\ir ../functions/grant_v1.sql
\ir ../functions/close_lease_v2.sql
\ir ../functions/fill_bucket_v1.sql
\ir ../functions/take_v1.sql
\ir ../functions/reserve_v1.sql
\ir ../functions/correct_v1.sql
\ir ../functions/close_bucket_v1.sql
\ir ../functions/open_bucket_v1.sql
\ir ../functions/sweep_v2.sql
\ir ../functions/window_v1.sql
\ir ../functions/late_v1.sql
\ir ../functions/rules_v1.sql
\ir ../functions/rules_version_v1.sql
\ir ../functions/is_paused_v1.sql
\ir ../functions/unserved_v1.sql
\ir ../functions/ensure_partitions_v2.sql
\ir ../functions/drop_partition_v1.sql
\ir ../functions/delete_v2.sql

CREATE TRIGGER queue_tells_workers AFTER INSERT OR UPDATE OR DELETE ON :"schema".queue
    FOR EACH STATEMENT EXECUTE FUNCTION :"schema".settings_changed_v1();
CREATE TRIGGER lane_setting_tells_workers AFTER INSERT OR UPDATE OR DELETE ON :"schema".lane_setting
    FOR EACH STATEMENT EXECUTE FUNCTION :"schema".settings_changed_v1();
CREATE TRIGGER plan_tells_workers AFTER INSERT OR UPDATE OR DELETE ON :"schema".plan
    FOR EACH STATEMENT EXECUTE FUNCTION :"schema".settings_changed_v1();
CREATE TRIGGER tenant_setting_tells_workers AFTER INSERT OR UPDATE OR DELETE ON :"schema".tenant_setting
    FOR EACH STATEMENT EXECUTE FUNCTION :"schema".settings_changed_v1();
CREATE TRIGGER limit_setting_tells_workers AFTER INSERT OR UPDATE OR DELETE ON :"schema".limit_setting
    FOR EACH STATEMENT EXECUTE FUNCTION :"schema".settings_changed_v1();
