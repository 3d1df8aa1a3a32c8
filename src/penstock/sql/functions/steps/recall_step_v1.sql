-- Return the cached result of a key of the same tenant, and save it as this step's; NULL if there is none.
CREATE FUNCTION :"schema".recall_step_v1(
    p_job bigint, p_token uuid, p_name text, p_key bytea, p_now timestamptz DEFAULT NULL
) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_now    timestamptz := coalesce(p_now, statement_timestamp());
    v_tenant text := lock_attempt_v1(p_job, p_token);
    v_used   timestamptz;
    v_result jsonb;
BEGIN
    SELECT c.result, c.used_at INTO v_result, v_used FROM step_cache AS c
     WHERE c.tenant = v_tenant AND c.key = p_key AND c.expires_at > v_now;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    -- An hour is exact enough to find unused results, and avoids a write for each use.
    IF v_used < v_now - interval '1 hour' THEN
        UPDATE step_cache AS c SET used_at = v_now WHERE c.tenant = v_tenant AND c.key = p_key;
    END IF;
    PERFORM save_step_v1(p_job, p_token, 'step', p_name, v_result, v_now);
    RETURN v_result;
END
$$;
