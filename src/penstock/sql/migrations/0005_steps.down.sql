-- Takes durable steps and events away again.
DROP FUNCTION :"schema".sweep_steps_v1, :"schema".save_step_v1, :"schema".read_steps_v1, :"schema".hold_attempt_v1;
DELETE FROM :"schema".step WHERE kind <> 'step';
ALTER TABLE :"schema".step
    DROP CONSTRAINT step_pkey, DROP CONSTRAINT step_kind_known, DROP COLUMN kind,
    ADD CONSTRAINT step_pkey PRIMARY KEY (job, name);
