-- Schedules: what enqueues by interval or cron. The engine's migration had room for them that nothing has used;
-- these tables take its place.
DROP TABLE :"schema".schedule_fire, :"schema".schedule;

-- request is the job to enqueue; declared is all that the code says, NULL for a schedule made at run time.
-- An interval's ticks are anchor + k * every. Ticks up to done_until are done with, whatever the clock says.
CREATE TABLE :"schema".schedule (
    name        text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL DEFAULT '',
    cron        text,
    every       double precision,
    timezone    text        NOT NULL DEFAULT 'UTC',
    jitter      double precision NOT NULL DEFAULT 0,
    overlap     text        NOT NULL DEFAULT 'skip',
    catch_up    text        NOT NULL DEFAULT 'skip',
    on_start    boolean     NOT NULL DEFAULT false,
    wins        text        NOT NULL DEFAULT 'runtime',
    version     bigint      NOT NULL DEFAULT 1,
    anchor      timestamptz NOT NULL DEFAULT statement_timestamp(),
    done_until  timestamptz NOT NULL DEFAULT statement_timestamp(),
    next_at     timestamptz,
    started_at  timestamptz,
    paused_at   timestamptz,
    edited_at   timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    request     jsonb       NOT NULL,
    declared    jsonb,
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_cron_or_interval CHECK ((cron IS NULL) <> (every IS NULL)),
    CONSTRAINT schedule_interval_positive CHECK (every > 0),
    CONSTRAINT schedule_jitter_not_negative CHECK (jitter >= 0),
    CONSTRAINT schedule_overlap_known CHECK (overlap IN ('skip', 'queue_one', 'allow')),
    CONSTRAINT schedule_catch_up_known CHECK (catch_up IN ('skip', 'once', 'all')),
    CONSTRAINT schedule_wins_known CHECK (wins IN ('runtime', 'code')),
    CONSTRAINT schedule_edited_only_if_declared CHECK (edited_at IS NULL OR declared IS NOT NULL),
    CONSTRAINT schedule_request_names_a_task CHECK (jsonb_typeof(request -> 'task') = 'string')
) WITH (fillfactor = 70);

-- What came of a tick: a job, or why there is none. The primary key is what makes one of a tick, whoever leads.
-- ticks is how many it stands for: of those that were missed there is one row.
CREATE TABLE :"schema".schedule_fire (
    schedule    text COLLATE "C" NOT NULL,
    tick        timestamptz NOT NULL,
    kind        text        NOT NULL DEFAULT 'tick',
    ticks       integer     NOT NULL DEFAULT 1,
    job         bigint,
    why         text,
    fired_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT schedule_fire_pkey PRIMARY KEY (schedule, tick),
    CONSTRAINT schedule_fire_kind_known CHECK (kind IN ('tick', 'start', 'manual')),
    CONSTRAINT schedule_fire_why_known CHECK (why IN ('running', 'waiting', 'missed')),
    CONSTRAINT schedule_fire_job_or_why CHECK ((job IS NULL) = (why IS NOT NULL))
);
CREATE INDEX schedule_fire_job ON :"schema".schedule_fire (schedule, tick) WHERE job IS NOT NULL;

\ir ../functions/schedule_changed_v1.sql
CREATE TRIGGER schedule_starts_anew
    BEFORE INSERT OR UPDATE OF tenant, cron, every, timezone, jitter, overlap, catch_up, on_start, request, paused_at
    ON :"schema".schedule FOR EACH ROW EXECUTE FUNCTION :"schema".schedule_changed_v1();
\ir ../functions/sync_schedules_v1.sql
\ir ../functions/due_v1.sql
\ir ../functions/overlap_v1.sql
\ir ../functions/fire_tick_v1.sql
\ir ../functions/fire_schedule_v1.sql
\ir ../functions/fire_v1.sql
\ir ../functions/run_schedule_v1.sql
\ir ../functions/sweep_fires_v1.sql
