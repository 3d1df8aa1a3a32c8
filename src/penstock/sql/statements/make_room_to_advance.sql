-- name: make_room_to_advance
-- For tests: make the partitions into which the history comes when advance.sql lets the same time pass.
-- Waits for whoever makes partitions now.
WITH span AS (
    SELECT make_interval(secs => greatest(0, coalesce(
               $1::double precision, extract(epoch FROM $2::timestamptz - statement_timestamp())))) AS past
), days AS (
    SELECT DISTINCT h.expires_on - ((h.finished_at AT TIME ZONE 'UTC')::date
                                    - ((h.finished_at - s.past) AT TIME ZONE 'UTC')::date) AS day
      FROM :"schema".job_history AS h CROSS JOIN span AS s
)
SELECT :"schema".ensure_partitions_v1(p_also => ARRAY(
           SELECT d.day FROM days AS d WHERE d.day >= (statement_timestamp() AT TIME ZONE 'UTC')::date))
  FROM (SELECT pg_advisory_xact_lock(hashtextextended(current_database() || '.' || $3::text || '.partitions', 0)) OFFSET 0) AS o;
