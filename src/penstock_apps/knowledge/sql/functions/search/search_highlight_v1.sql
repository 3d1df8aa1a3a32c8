-- The part of a text that has most words of the question, with these in bold as in Markdown: nothing that a browser runs.
CREATE FUNCTION :"schema".search_highlight_v1(p_language regconfig, p_text text, p_words text) RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT ts_headline(p_language, p_text, replace(plainto_tsquery(p_language, left(p_words, 2000))::text, '&', '|')::tsquery,
                       'StartSel=**, StopSel=**, MaxFragments=2, MinWords=8, MaxWords=30, FragmentDelimiter=" … "')
$$;
