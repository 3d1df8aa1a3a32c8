-- The chunks that pass the filters, or NULL if they are more than `p_most`: then each chunk is looked at in turn.
CREATE FUNCTION :"schema".search_scope_v1(p_tenant text, p_editions bigint[], p_filters jsonb, p_most integer)
RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    v_bases     bigint[] := ARRAY(SELECT DISTINCT e.base FROM edition AS e WHERE e.id = ANY (p_editions) AND e.tenant = p_tenant);
    v_sources   bigint[] := (SELECT array_agg(v::bigint) FROM jsonb_array_elements_text(p_filters->'sources') AS v);
    v_documents bigint[] := (SELECT array_agg(v::bigint) FROM jsonb_array_elements_text(p_filters->'documents') AS v);
    v_found     bigint[];
BEGIN
    IF p_filters IS NULL THEN
        RETURN NULL;
    END IF;
    -- By the narrowest index; the rest of the filters is asked of what that finds.
    IF p_filters ? 'documents' THEN
        v_found := v_documents;
    ELSIF p_filters ? 'sources' THEN
        v_found := ARRAY(SELECT d.id FROM document AS d WHERE d.source = ANY (v_sources) AND d.tenant = p_tenant LIMIT p_most + 1);
    ELSE
        v_found := ARRAY(
            SELECT d.id FROM document AS d
             WHERE d.base = ANY (v_bases) AND d.tenant = p_tenant
               AND search_admits_v1(p_filters, d.id, d.source, d.tags, d.metadata)
             LIMIT p_most + 1);
    END IF;
    IF cardinality(v_found) > p_most THEN
        RETURN NULL;
    END IF;
    v_found := ARRAY(
        SELECT p.chunk FROM search_place_v1 AS p
         WHERE p.document = ANY (v_found) AND p.edition = ANY (p_editions) AND p.tenant = p_tenant
           AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata)
         LIMIT p_most + 1);
    IF cardinality(v_found) > p_most THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT DISTINCT f FROM unnest(v_found) AS f);
END
$$;
