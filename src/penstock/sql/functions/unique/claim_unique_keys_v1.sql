-- Take unique keys for new jobs, one row for each key: which job holds it, whether this call took it, and whether the
-- job that holds it gets the arguments and the time of the new one instead.
--
-- A rule is {"key", "hold", "keep", "until", "on_conflict"}. hold says which jobs hold a key: live ones, or only waiting
-- ones (always with replace, since a running job already has its arguments). Within one call the first job of a key
-- wins, with replace or supersede the last.
-- If two open transactions use the same key, the second waits until the first one ends. Keys are taken in one order, so
-- that two calls with the same keys do not deadlock.
--
-- A job's state is read with its row locked: a claim under way finishes first, and a later claim comes after the end of
-- this transaction, so that the job sees what the transaction has written. The job is locked before its key, as by
-- everybody who ends a job; so those who skip locked jobs never wait for a key.
CREATE FUNCTION :"schema".claim_unique_keys_v1(
    p_jobs bigint[], p_keys text[], p_tenants text[], p_rules text[], p_now timestamptz
) RETURNS TABLE (ord bigint, tenant text, key text, job bigint, is_new boolean, is_replaced boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v        record;
    v_claim  record;
    v_state  text;
    v_passes boolean;
    v_won    bigint[];
    v_lost   bigint[];
    v_older  bigint[] := '{}';
    v_update boolean;
    v_others bigint[];
BEGIN
    WITH chosen AS MATERIALIZED (
        SELECT g.* FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
    ), taken AS (
        INSERT INTO unique_claim AS u (kind, tenant, key, job, keep, until)
        SELECT 'unique', c.tenant, c.key, c.job, c.keep, c.until FROM chosen AS c ORDER BY c.tenant, c.key
        ON CONFLICT DO NOTHING
        RETURNING u.job
    )
    SELECT array_agg(c.ord) FILTER (WHERE t.job IS NOT NULL), array_agg(c.ord) FILTER (WHERE t.job IS NULL)
      INTO v_won, v_lost
      FROM chosen AS c LEFT JOIN taken AS t ON t.job = c.job;
    RETURN QUERY
    SELECT g.ord, coalesce(g.tenant, ''), g.key, g.job, true, false
      FROM unnest(p_jobs, p_keys, p_tenants) WITH ORDINALITY AS g (job, key, tenant, ord)
      JOIN unnest(v_won) AS w (ord) ON w.ord = g.ord;
    IF v_lost IS NULL THEN
        RETURN;
    END IF;

    -- Jobs that hold keys are locked in the order of ids, as everybody does; each of them is checked later.
    IF cardinality(v_lost) > 1 THEN
        SELECT bool_or(g.on_conflict IN ('replace', 'supersede')),
               array_agg((SELECT u.job FROM unique_claim AS u
                           WHERE u.kind = 'unique' AND u.tenant = g.tenant AND u.key = g.key AND u.expires_at IS NULL))
          INTO v_update, v_others
          FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
         WHERE g.ord = ANY (v_lost) AND (g.on_conflict IN ('replace', 'supersede') OR g.hold = 'waiting');
        IF v_update THEN
            PERFORM 1 FROM job AS j WHERE j.id = ANY (v_others) ORDER BY j.id FOR UPDATE;
        ELSIF v_others IS NOT NULL THEN
            PERFORM 1 FROM job AS j WHERE j.id = ANY (v_others) ORDER BY j.id FOR SHARE;
        END IF;
    END IF;
    FOR v IN SELECT g.* FROM choose_unique_v1(p_jobs, p_keys, p_tenants, p_rules) AS g
              WHERE g.ord = ANY (v_lost) ORDER BY g.tenant, g.key LOOP
        ord := v.ord; tenant := v.tenant; key := v.key;
        job := v.job; is_new := false; is_replaced := false;
        WHILE NOT is_new LOOP
            -- Both are read in one snapshot: a claim without a job is left over from SQL that somebody ran by hand.
            SELECT u.job, u.expires_at, coalesce(u.expires_at <= p_now, j.id IS NULL) AS is_over
              INTO v_claim
              FROM unique_claim AS u LEFT JOIN job AS j ON j.id = u.job
             WHERE u.kind = 'unique' AND u.tenant = v.tenant AND u.key = v.key;
            IF NOT FOUND THEN  -- released in between
                INSERT INTO unique_claim (kind, tenant, key, job, keep, until)
                VALUES ('unique', v.tenant, v.key, v.job, v.keep, v.until) ON CONFLICT DO NOTHING;
                is_new := FOUND;
                CONTINUE;
            END IF;
            v_state := NULL;
            IF v_claim.expires_at IS NULL AND NOT v_claim.is_over THEN
                -- A job that waits for an event has started.
                IF v.on_conflict IN ('replace', 'supersede') THEN
                    SELECT CASE WHEN j.state = 'blocked' AND j.pending = 0 THEN 'running' ELSE j.state END INTO v_state
                      FROM job AS j WHERE j.id = v_claim.job FOR UPDATE;
                    CONTINUE WHEN NOT FOUND;  -- it has ended in between, and does not hold the key any more
                ELSIF v.hold = 'waiting' THEN
                    SELECT CASE WHEN j.state = 'blocked' AND j.pending = 0 THEN 'running' ELSE j.state END INTO v_state
                      FROM job AS j WHERE j.id = v_claim.job FOR SHARE;
                    CONTINUE WHEN NOT FOUND;
                END IF;
            END IF;
            v_passes := v_claim.is_over
                OR coalesce(v_state = 'running' AND (v.hold = 'waiting' OR v.on_conflict = 'replace'), false);
            IF v_passes OR v.on_conflict = 'supersede' THEN
                UPDATE unique_claim AS u
                   SET job = v.job, keep = v.keep, until = v.until, expires_at = NULL
                 WHERE u.kind = 'unique' AND u.tenant = v.tenant AND u.key = v.key AND u.job = v_claim.job;
                is_new := FOUND;
                IF is_new AND NOT v_passes THEN
                    v_older := v_older || v_claim.job;
                END IF;
                CONTINUE;
            END IF;
            IF v.on_conflict = 'raise' THEN
                RAISE EXCEPTION 'Unique key "%" is held by job %.', v.key, v_claim.job
                    USING ERRCODE = 'PS010', DETAIL = json_build_array(v.key, v_claim.job::text)::text,
                          HINT = 'Wait for that job, or ask for another answer to the conflict.';
            END IF;
            job := v_claim.job;
            is_replaced := v.on_conflict = 'replace' AND v_state IS NOT NULL;
            EXIT;
        END LOOP;
        RETURN NEXT;
    END LOOP;
    IF v_older <> '{}' THEN
        PERFORM cancel_v1(v_older, 'superseded', p_now);
    END IF;
END
$$;
