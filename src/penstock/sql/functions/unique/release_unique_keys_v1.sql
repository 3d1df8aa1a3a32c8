-- Release the unique keys of jobs that have ended, at once or when they have been kept long enough.
CREATE FUNCTION :"schema".release_unique_keys_v1(p_jobs bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
BEGIN
    DELETE FROM unique_claim AS u
     WHERE u.job = ANY (p_jobs) AND u.kind = 'unique' AND u.keep IS NULL AND (u.until <= p_now) IS NOT FALSE;
    UPDATE unique_claim AS u
       SET expires_at = greatest(u.until, p_now + make_interval(secs => u.keep))
     WHERE u.job = ANY (p_jobs) AND u.kind = 'unique' AND u.expires_at IS NULL;
END
$$;
