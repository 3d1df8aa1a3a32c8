-- Take the unique keys of the jobs of one call. Returns for each its key, the job that holds it, whether that job is new,
-- and whether a waiting job has to be replaced. Jobs with an idempotency key that was already taken are left alone.
CREATE FUNCTION :"schema".apply_unique_v1(
    p_rules text[], p_tenants text[], p_idempotency_keys text[], p_jobs bigint[], p_new boolean[], p_now timestamptz,
    OUT keys text[], OUT jobs bigint[], OUT new boolean[], OUT replaced boolean[]
)
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET jit = off
AS $$
DECLARE
    v_rules text[];
BEGIN
    SELECT array_agg(CASE WHEN g.is_new THEN g.key || coalesce(':' || g.part, '') END ORDER BY g.ord),
           array_agg(CASE WHEN g.part IS NULL THEN g.rule ELSE g.rule || jsonb_build_object(
               'until', to_timestamp((g.part + 1) * g.period)) END::text ORDER BY g.ord)
      INTO keys, v_rules
      FROM (SELECT r.ord, r.is_new, r.rule::jsonb AS rule, r.rule::jsonb ->> 'key' AS key,
                   (r.rule::jsonb ->> 'period')::double precision AS period,
                   floor(extract(epoch FROM p_now) / (r.rule::jsonb ->> 'period')::double precision)::bigint AS part
              FROM unnest(p_rules, p_new) WITH ORDINALITY AS r (rule, is_new, ord)) AS g;

    SELECT array_agg(coalesce(h.job, g.job) ORDER BY g.ord),
           array_agg(g.is_new AND (h.key IS NULL OR (h.is_new AND h.ord = g.ord)) ORDER BY g.ord),
           array_agg(coalesce(h.is_replaced AND h.ord = g.ord, false) ORDER BY g.ord)
      INTO jobs, new, replaced
      FROM unnest(p_jobs, p_new, keys, p_tenants) WITH ORDINALITY AS g (job, is_new, key, tenant, ord)
      LEFT JOIN claim_unique_keys_v1(p_jobs, keys, p_tenants, v_rules, p_now) AS h
        ON h.key = g.key AND h.tenant = coalesce(g.tenant, '');

    -- A new idempotency key belongs to the job that holds the unique key, for all jobs of this call that have it.
    IF p_idempotency_keys IS NOT NULL THEN
        UPDATE unique_claim AS u SET job = g.job
          FROM unnest(p_idempotency_keys, p_tenants, jobs, p_jobs) AS g (key, tenant, job, was)
         WHERE u.kind = 'idempotency' AND u.tenant = coalesce(g.tenant, '') AND u.key = g.key
           AND u.job = g.was AND g.job <> g.was;
        jobs := ARRAY(SELECT coalesce(m.job, g.job)
                        FROM unnest(jobs, p_jobs) WITH ORDINALITY AS g (job, was, ord)
                        LEFT JOIN (SELECT DISTINCT o.was, o.job FROM unnest(jobs, p_jobs) AS o (job, was)
                                    WHERE o.job <> o.was) AS m ON m.was = g.was
                       ORDER BY g.ord);
    END IF;
END
$$;
