-- The day on which a job that ended on a day goes, if it is kept for so many days: a partition of the history.
--
-- A settle and whoever makes partitions both ask here, so they cannot disagree. The longer a job is kept, the coarser
-- the day: up to 14 days exactly, up to 90 the next Monday, beyond that the first of the next month. So a year of
-- history has some thirty partitions, and nothing goes earlier than it was to be kept.
CREATE FUNCTION :"schema".expires_on_v1(p_ended date, p_days integer) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
           WHEN p_days <= 14 THEN p_ended + p_days + 1
           WHEN p_days <= 90 THEN date_trunc('week', (p_ended + p_days)::timestamp)::date + 7
           ELSE (date_trunc('month', (p_ended + p_days)::timestamp) + interval '1 month')::date
           END;
$$;
