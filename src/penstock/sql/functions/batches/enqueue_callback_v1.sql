-- Enqueue the callback of a batch for an event, if it has one. Returns the job's id.
-- The callback of a tenant's batch belongs to that tenant, whatever is stored. Only a batch without one may name another.
CREATE FUNCTION :"schema".enqueue_callback_v1(
    p_batch bigint, p_tenant text, p_moment text, p_callbacks jsonb, p_now timestamptz
) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
    SELECT enqueue_stored_v1(p_callbacks -> p_moment, coalesce(nullif(p_tenant, ''), p_callbacks -> p_moment ->> 'tenant', ''),
                             jsonb_build_object('batch', p_batch::text, 'moment', p_moment), NULL, p_now)
     WHERE p_callbacks ? p_moment;
$$;
