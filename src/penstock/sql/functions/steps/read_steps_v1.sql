-- Return the saved steps of a job, to the attempt that owns it.
CREATE FUNCTION :"schema".read_steps_v1(p_job bigint, p_token uuid)
RETURNS TABLE (kind text, name text, result jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM job AS j WHERE j.id = p_job AND j.token = p_token) THEN
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_job USING ERRCODE = 'PS003';
    END IF;
    RETURN QUERY SELECT s.kind, s.name, s.result FROM step AS s WHERE s.job = p_job;
END
$$;
