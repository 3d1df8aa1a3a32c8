-- Takes schedules away again; what they enqueued stays.
DROP FUNCTION :"schema".sweep_fires_v1, :"schema".run_schedule_v1, :"schema".fire_v1, :"schema".fire_schedule_v1,
    :"schema".fire_tick_v1, :"schema".overlap_v1, :"schema".due_v1, :"schema".sync_schedules_v1;
DROP TABLE :"schema".schedule_fire, :"schema".schedule;
DROP FUNCTION :"schema".schedule_changed_v1;
CREATE TABLE :"schema".schedule (
    name        text COLLATE "C" NOT NULL,
    task        text        NOT NULL,
    queue       text,
    tenant      text COLLATE "C" NOT NULL DEFAULT '',
    cron        text,
    every       double precision,
    timezone    text        NOT NULL DEFAULT 'UTC',
    args        jsonb       NOT NULL DEFAULT '{}',
    options     jsonb       NOT NULL DEFAULT '{}',
    overlap     text        NOT NULL DEFAULT 'skip',
    catch_up    text        NOT NULL DEFAULT 'skip',
    jitter      double precision NOT NULL DEFAULT 0,
    source      text        NOT NULL DEFAULT 'code',
    next_at     timestamptz,
    paused_at   timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_cron_or_interval CHECK ((cron IS NULL) <> (every IS NULL)),
    CONSTRAINT schedule_interval_positive CHECK (every > 0),
    CONSTRAINT schedule_overlap_known CHECK (overlap IN ('skip', 'queue_one', 'allow')),
    CONSTRAINT schedule_catch_up_known CHECK (catch_up IN ('skip', 'once', 'all')),
    CONSTRAINT schedule_source_known CHECK (source IN ('code', 'runtime'))
);

-- The primary key is what makes one firing per tick, whoever leads.
CREATE TABLE :"schema".schedule_fire (
    schedule    text COLLATE "C" NOT NULL,
    tick        timestamptz NOT NULL,
    job         bigint,
    fired_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schedule_fire_pkey PRIMARY KEY (schedule, tick)
);
