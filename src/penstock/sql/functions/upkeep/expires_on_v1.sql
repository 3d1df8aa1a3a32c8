-- Return the day on which a job is removed that ended on p_day and is kept for so many days. Each such day is a partition
-- of the history.
--
-- Settling and the creation of partitions both call this, so they cannot disagree. The longer jobs are kept, the coarser
-- the days: up to 14 days exactly, up to 90 days the next Monday, beyond that the first of the next month. So a year of
-- history has some thirty partitions, and no job is removed too early.
CREATE FUNCTION :"schema".expires_on_v1(p_ended date, p_days integer) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
           WHEN p_days <= 14 THEN p_ended + p_days + 1
           WHEN p_days <= 90 THEN date_trunc('week', (p_ended + p_days)::timestamp)::date + 7
           ELSE (date_trunc('month', (p_ended + p_days)::timestamp) + interval '1 month')::date
           END;
$$;
