-- Notify the leader that a job is due at this time, so that it need not poll for it.
CREATE FUNCTION :"schema".notify_due_v1(p_run_at timestamptz) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT pg_notify(current_schema() || '.due', extract(epoch FROM p_run_at)::text);
$$;
