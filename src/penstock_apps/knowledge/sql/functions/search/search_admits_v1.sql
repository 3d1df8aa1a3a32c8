-- Whether a place passes all filters that are given. It passes a filter by any of its values, metadata by all of them.
-- One expression without settings, so that Postgres inlines it into the query that calls it.
CREATE FUNCTION :"schema".search_admits_v1(
    p_filters jsonb, p_document bigint, p_source bigint, p_tags text[], p_metadata jsonb
) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
    SELECT (p_filters->'documents' IS NULL OR p_filters->'documents' @> to_jsonb(p_document))
       AND (p_filters->'sources' IS NULL OR p_filters->'sources' @> to_jsonb(p_source))
       AND (p_filters->'tags' IS NULL OR p_filters->'tags' ?| p_tags)
       AND (p_filters->'metadata' IS NULL OR p_metadata @> (p_filters->'metadata'))
$$;
