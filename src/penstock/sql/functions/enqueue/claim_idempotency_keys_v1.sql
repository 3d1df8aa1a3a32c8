-- Take idempotency keys for new jobs. Returns the job of each key, and whether it is new.
-- If two open transactions use the same key, the second waits until the first one ends.
CREATE FUNCTION :"schema".claim_idempotency_keys_v1(
    p_keys text[], p_tenants text[], p_fingerprints bytea[], p_now timestamptz
) RETURNS TABLE (ord bigint, job bigint, is_new boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_won      bigint[];
    v_mismatch text;
    v_job      bigint;
BEGIN
    WITH won AS (
        INSERT INTO unique_claim AS u (kind, tenant, key, job, fingerprint, expires_at)
        SELECT 'idempotency', g.tenant, g.key, nextval('job_id_seq'), g.fingerprint, p_now + interval '7 days'
          FROM (SELECT DISTINCT ON (coalesce(k.tenant, ''), k.key)
                       coalesce(k.tenant, '') AS tenant, k.key, k.fingerprint
                  FROM unnest(p_keys, p_tenants, p_fingerprints) WITH ORDINALITY
                    AS k (key, tenant, fingerprint, ord)
                 WHERE k.key IS NOT NULL
                 ORDER BY coalesce(k.tenant, ''), k.key, k.ord) AS g
        ON CONFLICT (kind, tenant, key) DO UPDATE
           SET job = excluded.job, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at
         WHERE u.expires_at <= p_now
        RETURNING u.job
    )
    SELECT coalesce(array_agg(w.job), '{}') INTO v_won FROM won AS w;

    SELECT k.key, u.job INTO v_mismatch, v_job
      FROM unnest(p_keys, p_tenants, p_fingerprints) AS k (key, tenant, fingerprint)
      JOIN unique_claim AS u
        ON u.kind = 'idempotency' AND u.tenant = coalesce(k.tenant, '') AND u.key = k.key
     WHERE u.fingerprint IS DISTINCT FROM k.fingerprint
     LIMIT 1;
    IF v_mismatch IS NOT NULL THEN
        RAISE EXCEPTION 'Idempotency key "%" belongs to a job with other arguments.', v_mismatch
            USING ERRCODE = 'PS002', HINT = 'Use a new key for a new request, or send the same arguments.',
                  DETAIL = json_build_array(v_mismatch, v_job::text)::text;
    END IF;

    RETURN QUERY
    SELECT k.ord, coalesce(u.job, nextval('job_id_seq')),
           u.job IS NULL
           OR (u.job = ANY (v_won)
               AND row_number() OVER (PARTITION BY u.job ORDER BY k.ord) = 1)
      FROM unnest(p_keys, p_tenants) WITH ORDINALITY AS k (key, tenant, ord)
      LEFT JOIN unique_claim AS u
        ON u.kind = 'idempotency' AND u.tenant = coalesce(k.tenant, '') AND u.key = k.key;
END
$$;
