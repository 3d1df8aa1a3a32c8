-- Send an event to all jobs of a tenant that wait for its name, now or while it is kept. Returns its id, and how many jobs
-- it woke at once. An event without a tenant belongs to the tenant of the transaction.
--
-- Events with the same name are sent one after the other, commit by commit, so that their ids rise in the order in which
-- they become visible: a job that has received one gets those after it. The lock also stops jobs from beginning to wait:
-- either they see this event, or this function sees their wait.
--
-- The leader wakes the rest of the jobs: if there are very many, if somebody has locked a row, and always under repeatable
-- read, where this transaction does not see waits that began after it did.
CREATE FUNCTION :"schema".send_event_v1(
    p_name text, p_payload jsonb DEFAULT NULL, p_tenant text DEFAULT '', p_keep double precision DEFAULT 604800,
    p_now timestamptz DEFAULT NULL, p_options jsonb DEFAULT NULL
) RETURNS TABLE (id bigint, woken integer)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := coalesce(current_setting('penstock.tenant', true), '');
    v_told   boolean;
BEGIN
    IF p_options ->> 'durable' = 'true' THEN
        PERFORM commit_durably_v1();
    END IF;
    IF v_tenant <> '' AND p_tenant NOT IN ('', v_tenant) THEN
        RAISE EXCEPTION 'An event of tenant "%" cannot be sent by tenant "%".', p_tenant, v_tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(p_tenant, v_tenant)::text,
                  HINT = 'Leave the tenant out, or SET LOCAL penstock.tenant to the other one.';
    ELSIF v_tenant = '' AND row_security_active('event') THEN
        RAISE EXCEPTION 'No tenant is set, and row level security is on.'
            USING ERRCODE = 'PS008', HINT = 'SET LOCAL penstock.tenant to the tenant that the event belongs to.';
    END IF;
    v_tenant := coalesce(nullif(v_tenant, ''), p_tenant);
    PERFORM pg_advisory_xact_lock(event_lock_key_v1(v_tenant, p_name));
    id := nextval('event_id_seq');
    SELECT w.woken, w.all_told INTO woken, v_told
      FROM wake_waiters_v1(id, v_tenant, p_name, 1000,
                           coalesce((p_options ->> 'notify')::boolean, true), p_now) AS w;
    INSERT INTO event (id, tenant, name, payload, sent_at, expires_at, told)
    OVERRIDING SYSTEM VALUE
    VALUES (id, v_tenant, p_name, coalesce(p_payload, 'null'), v_now, v_now + make_interval(secs => p_keep),
            v_told AND current_setting('transaction_isolation') = 'read committed');
    RETURN NEXT;
END
$$;
