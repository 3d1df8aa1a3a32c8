-- Lock a job while its attempt writes something about it. Returns the job's tenant; raises PS003 if the job does not
-- belong to this attempt (any more). The lock keeps others from taking the job until the write has committed: so the next
-- attempt can read all that this one wrote, and later writes are refused.
CREATE FUNCTION :"schema".lock_attempt_v1(p_job bigint, p_token uuid) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_tenant text;
BEGIN
    SELECT j.tenant INTO v_tenant FROM job AS j WHERE j.id = p_job AND j.token = p_token FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    RETURN v_tenant;
END
$$;
