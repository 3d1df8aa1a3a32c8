-- What every result has to match, for questions with "a phrase" or a -word. NULL for all others.
CREATE FUNCTION :"schema".search_strict_v1(p_language regconfig, p_words text) RETURNS tsquery
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN p_words ~ '"[^"]+"|(^|\s)-\w' AND numnode(websearch_to_tsquery(p_language, p_words)) > 0
                THEN websearch_to_tsquery(p_language, p_words) END
$$;
