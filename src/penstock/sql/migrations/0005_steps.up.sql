-- Durable steps, their cache, and events that jobs wait for.

-- Beside steps a job remembers where it slept, which events it got and how often it has polled.
ALTER TABLE :"schema".step
    ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'step',
    DROP CONSTRAINT step_pkey,
    ADD CONSTRAINT step_pkey PRIMARY KEY (job, kind, name),
    ADD CONSTRAINT step_kind_known CHECK (kind IN ('step', 'sleep', 'event', 'poll'));

\ir ../functions/hold_attempt_v1.sql
\ir ../functions/read_steps_v1.sql
\ir ../functions/save_step_v1.sql
\ir ../functions/sweep_steps_v1.sql
