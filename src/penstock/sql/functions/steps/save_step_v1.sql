-- Save the result of a step, for this attempt and later ones. Returns how many seconds ago its first result was saved.
-- The first result of a step stays; for a poll, which continues, the last one replaces it.
CREATE FUNCTION :"schema".save_step_v1(
    p_job bigint, p_token uuid, p_kind text, p_name text, p_result jsonb, p_now timestamptz DEFAULT NULL
) RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now   timestamptz := coalesce(p_now, statement_timestamp());
    v_since timestamptz;
BEGIN
    PERFORM commit_durably_v1();
    PERFORM lock_attempt_v1(p_job, p_token);
    INSERT INTO step AS s (job, kind, name, result, created_at) VALUES (p_job, p_kind, p_name, p_result, v_now)
    ON CONFLICT (job, kind, name) DO UPDATE
       SET result = CASE s.kind WHEN 'poll' THEN excluded.result ELSE s.result END
    RETURNING s.created_at INTO v_since;
    RETURN extract(epoch FROM v_now - v_since);
END
$$;
