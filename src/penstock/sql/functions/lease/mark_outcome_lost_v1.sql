-- Take jobs from a worker that has run them and cannot write their outcomes. Each counts as a loss.
CREATE FUNCTION :"schema".mark_outcome_lost_v1(
    p_ids bigint[], p_tokens uuid[], p_error text, p_now timestamptz DEFAULT NULL
) RETURNS TABLE (id bigint, lost boolean)
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT l.id, l.lost
      FROM mark_worker_lost_v1(p_ids, p_tokens, 'unwritten', 'OutcomeUnwritten',
                               'The attempt ended, and its outcome could not be written: ' || p_error, true,
                               coalesce(p_now, statement_timestamp())) AS l
     WHERE l.lost IS NOT NULL;
$$;
