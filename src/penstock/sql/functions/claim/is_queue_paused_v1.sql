-- Return whether a queue is paused, so that nobody may claim from it.
CREATE FUNCTION :"schema".is_queue_paused_v1(p_queue text) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT EXISTS (SELECT FROM queue AS q WHERE q.name = p_queue AND q.paused_at IS NOT NULL);
$$;
