-- A changed schedule has new ticks from now on: earlier ones do not count as missed, the next one is computed again,
-- and the leader is notified. The same applies when a schedule is resumed; it runs at the next start of a leader, not
-- for the last one. "Now" counts even if the clock was set back: the primary key keeps ticks from firing twice.
CREATE FUNCTION :"schema".schedule_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now     timestamptz := statement_timestamp();
    v_resumed boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        v_resumed := OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL;
        IF NEW.every IS DISTINCT FROM OLD.every THEN
            NEW.anchor := v_now;
        END IF;
        IF v_resumed OR (NEW.cron, NEW.every, NEW.timezone) IS DISTINCT FROM (OLD.cron, OLD.every, OLD.timezone) THEN
            NEW.done_until := v_now;
        END IF;
        IF v_resumed OR (NEW.on_start AND NOT OLD.on_start) THEN
            NEW.started_at := (SELECT r.elected_at FROM leader AS r WHERE r.role = 'orchestration');
        END IF;
        NEW.version := OLD.version + 1;
        NEW.updated_at := v_now;
    END IF;
    NEW.next_at := NULL;
    PERFORM pg_notify(current_schema() || '.schedules', '');
    RETURN NEW;
END
$$;
