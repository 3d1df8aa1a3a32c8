-- Save the progress of attempts, if they still own their jobs. Returns the jobs of the others.
CREATE FUNCTION :"schema".save_progress_v1(
    p_ids bigint[], p_tokens uuid[], p_done double precision[], p_totals double precision[],
    p_messages text[], p_now timestamptz DEFAULT NULL
) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO progress AS p (job, done, total, message, updated_at)
    SELECT g.id, g.done, g.total, g.message, coalesce(p_now, statement_timestamp())
      FROM unnest(p_ids, p_tokens, p_done, p_totals, p_messages) AS g (id, token, done, total, message)
      JOIN job AS j ON j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token
     ORDER BY g.id
    ON CONFLICT (job) DO UPDATE
       SET done = excluded.done, total = excluded.total, message = excluded.message,
           updated_at = excluded.updated_at, version = p.version + 1;
    RETURN QUERY
    SELECT g.id FROM unnest(p_ids, p_tokens) AS g (id, token)
     WHERE NOT EXISTS (SELECT FROM job AS j
                        WHERE j.id = ANY (p_ids) AND j.id = g.id AND j.token = g.token);
END
$$;
