-- Why a schedule's tick has to be left out: 'running' for an earlier job that has not ended, 'waiting' for one that
-- has not begun. NULL if it need not. Plans as for a big table, whatever it was when they were made.
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
    -- The last jobs are enough: while one lives, only people who run the schedule by hand add to them.
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
