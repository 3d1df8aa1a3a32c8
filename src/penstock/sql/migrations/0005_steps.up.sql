-- Durable steps, their cache, and how jobs wait for events.

-- Results of steps that the jobs of a tenant share, by a hash of the step, its code and its arguments.
CREATE TABLE :"schema".step_cache (
    tenant      text COLLATE "C" NOT NULL,
    key         bytea       NOT NULL,
    size        integer     NOT NULL,
    created_at  timestamptz NOT NULL,
    used_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    result      jsonb       NOT NULL,
    CONSTRAINT step_cache_pkey PRIMARY KEY (tenant, key),
    CONSTRAINT step_cache_key_is_sha256 CHECK (octet_length(key) = 32)
);
CREATE INDEX step_cache_use ON :"schema".step_cache (used_at) INCLUDE (size);
CREATE INDEX step_cache_expiry ON :"schema".step_cache (expires_at);

\ir ../functions/hold_attempt_v1.sql
\ir ../functions/read_steps_v1.sql
\ir ../functions/save_step_v1.sql
\ir ../functions/sweep_steps_v1.sql
\ir ../functions/recall_step_v1.sql
\ir ../functions/share_step_v1.sql
\ir ../functions/sweep_cache_v1.sql
\ir ../functions/sleep_v1.sql
\ir ../functions/event_key_v1.sql
\ir ../functions/wake_jobs_v1.sql
\ir ../functions/wake_waiters_v1.sql
\ir ../functions/send_event_v1.sql
\ir ../functions/await_event_v1.sql
\ir ../functions/wake_waits_v1.sql
\ir ../functions/sweep_events_v1.sql
