-- Return why a tick of a schedule has to be skipped: 'running' if an earlier job has not ended, 'waiting' if one has
-- not started, NULL if the tick can fire. The settings force plans for a big table, whatever its size at planning time.
CREATE FUNCTION :"schema".schedule_overlap_v1(p_schedule text, p_overlap text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    -- It is enough to check the last jobs: while one has not ended, only manual runs add more.
    RETURN (
        SELECT CASE WHEN bool_or(j.state <> 'running') THEN 'waiting' WHEN p_overlap = 'skip' THEN 'running' END
          FROM (SELECT f.job FROM schedule_fire AS f
                 WHERE f.schedule = p_schedule AND f.job IS NOT NULL
                 ORDER BY f.tick DESC LIMIT 10) AS l
          JOIN job AS j ON j.id = l.job
         WHERE p_overlap <> 'allow'
        HAVING count(*) > 0);
END
$$;
