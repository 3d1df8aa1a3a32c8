-- Count an attempt to log in, before the password is compared, so that simultaneous attempts count too. Returns the
-- seconds to wait, 0 if the attempt may be made. $1 are the subjects, a name and an address; $2 is how many failures of
-- each cost no wait; after them the wait doubles with each failure, up to $3. After an hour without a failure the count
-- starts again.
CREATE FUNCTION :"schema".try_login_v1(
    p_subjects bytea[], p_free integer[], p_most double precision[], p_now timestamptz DEFAULT NULL
) RETURNS double precision
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_now  timestamptz := coalesce(p_now, clock_timestamp());
    v_wait double precision;
BEGIN
    -- Rows without an attempt for a day are deleted, a few at a time.
    DELETE FROM login_failure AS f
     WHERE f.subject IN (SELECT o.subject FROM login_failure AS o WHERE o.last_at < v_now - interval '1 day'
                          ORDER BY o.last_at LIMIT 100 FOR UPDATE SKIP LOCKED);
    INSERT INTO login_failure (subject, last_at, until)
    SELECT s.subject, v_now, v_now FROM unnest(p_subjects) AS s (subject) ORDER BY s.subject
    ON CONFLICT (subject) DO NOTHING;
    -- Locked in one order, so that two attempts never deadlock.
    PERFORM FROM login_failure AS f WHERE f.subject = ANY (p_subjects) ORDER BY f.subject FOR UPDATE;
    v_now := coalesce(p_now, clock_timestamp());  -- after the lock, since others may have come first
    SELECT extract(epoch FROM max(f.until) - v_now) INTO v_wait FROM login_failure AS f WHERE f.subject = ANY (p_subjects);
    IF v_wait > 0 THEN
        RETURN v_wait;
    END IF;
    UPDATE login_failure AS f
       SET failures = n.failures, last_at = v_now,
           until = v_now + CASE WHEN n.failures <= s.free THEN interval '0'
                                ELSE make_interval(secs => least(s.most, 2.0 ^ least(n.failures - s.free - 1, 30))) END
      FROM unnest(p_subjects, p_free, p_most) AS s (subject, free, most)
     CROSS JOIN LATERAL (
           SELECT CASE WHEN o.last_at < v_now - interval '1 hour' THEN 1 ELSE o.failures + 1 END AS failures
             FROM login_failure AS o WHERE o.subject = s.subject) AS n
     WHERE f.subject = s.subject;
    RETURN 0;
END
$$;
