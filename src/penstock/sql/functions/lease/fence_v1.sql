-- Fence the handler's own transaction: lock the job until the transaction ends, or fail at once.
-- While the lock is held nobody can rescue, cancel or settle the job. So Postgres ends the transaction when it has been
-- idle for as long as the lease would have lasted. The SQLSTATE says what is wrong:
--   PS001  the lease of the attempt has expired;
--   PS003  the job does not belong to this attempt (any more);
--   PS004  this very attempt has completed it, in this transaction or in a committed one.
CREATE FUNCTION :"schema".fence_v1(p_id bigint, p_token uuid, p_now timestamptz DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_left double precision;
BEGIN
    PERFORM 1 FROM job AS j WHERE j.id = p_id AND j.token = p_token FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        IF EXISTS (SELECT FROM find_completed_v1(ARRAY[p_id], ARRAY[p_token])) THEN
            RAISE EXCEPTION 'Job % was completed by this attempt already.', p_id USING ERRCODE = 'PS004';
        END IF;
        RAISE EXCEPTION 'Job % no longer belongs to this attempt.', p_id USING ERRCODE = 'PS003';
    END IF;
    SELECT extract(epoch FROM l.expires_at - coalesce(p_now, clock_timestamp())) INTO v_left
      FROM job AS j JOIN lease AS l ON l.id = j.lease WHERE j.id = p_id;
    IF coalesce(v_left, 0) <= 0 THEN
        RAISE EXCEPTION 'The lease behind job % has expired.', p_id USING ERRCODE = 'PS001';
    END IF;
    -- The caller's own limit stays if it is stricter; 0 means that there is none.
    v_left := least(v_left, nullif(extract(epoch FROM
        current_setting('idle_in_transaction_session_timeout')::interval), 0)::double precision);
    PERFORM set_config('idle_in_transaction_session_timeout', ceil(v_left * 1000)::bigint::text, true);
END
$$;
