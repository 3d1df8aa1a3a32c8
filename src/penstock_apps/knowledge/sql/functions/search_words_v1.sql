-- The chunks that share words with the question, best first: rare words count more, and so do words in headings.
--
-- A natural question has words that no answer has, so a chunk needs one of them, not all. Common words find too much to
-- look at: they only tell apart what the rare ones have found. Quoted phrases and -words are taken at their word.
-- Without filters, of deleted documents too. `p_size` is how many chunks there are, NULL if they are many.
CREATE FUNCTION :"schema".search_words_v1(
    p_tenant text, p_editions bigint[], p_scope bigint[], p_size bigint, p_language regconfig, p_words text,
    p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, weight double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    c_budget  constant integer := 3000;   -- how many matches are looked at
    c_refined constant integer := 200;    -- how many of them are weighed by where their words stand
    v_within  tsquery := (SELECT string_agg(format('''_e%s''', e), ' | ')::tsquery FROM unnest(p_editions) AS e);
    v_strict  tsquery := search_strict_v1(p_language, p_words);
    v_size    double precision := coalesce(p_size, c_budget);
    v_common  text[];                     -- what Postgres has counted
    v_shares  real[];
    v_terms   tsquery[];
    v_rows    double precision[];         -- about how many chunks have the term
    v_asked   tsquery[];                  -- what the index is asked for: the first of the terms, or one query of all
    v_whole   boolean := true;            -- the second
BEGIN
    SELECT p.most_common_elems::text::text[], p.most_common_elem_freqs INTO v_common, v_shares
      FROM pg_stats AS p WHERE p.schemaname = current_schema() AND p.tablename = 'chunk' AND p.attname = 'words';
    IF p_size IS NULL THEN
        SELECT greatest(v_size, c.reltuples * (
                 SELECT sum(v_shares[array_position(v_common, '_e' || e)]) FROM unnest(p_editions) AS e))
          INTO v_size FROM pg_class AS c WHERE c.oid = 'chunk'::regclass;
    END IF;
    -- The rarest term first. What is not counted is rarer than the rarest that is, whose share comes after all others.
    SELECT array_agg(t.query ORDER BY t.rows, t.term), array_agg(t.rows ORDER BY t.rows, t.term)
      INTO v_terms, v_rows
      FROM (SELECT w.term, ('''' || replace(replace(w.term, '\', '\\'), '''', '''''') || '''')::tsquery AS query,
                   v_size * coalesce(v_shares[array_position(v_common, w.term)], v_shares[cardinality(v_common) + 1] / 2, 0.005) AS rows
              FROM unnest(tsvector_to_array(to_tsvector(p_language, left(p_words, 2000)))) AS w (term)) AS t;
    IF v_terms IS NULL THEN
        RETURN;
    END IF;

    IF v_strict IS NOT NULL THEN
        v_asked := ARRAY[v_strict];
    ELSE
        v_asked := ARRAY(
            SELECT r.query
              FROM (SELECT t.query, t.n, sum(t.rows) OVER (ORDER BY t.n) AS running
                      FROM unnest(v_terms, v_rows) WITH ORDINALITY AS t (query, rows, n)) AS r
             WHERE r.running <= c_budget OR p_scope IS NOT NULL
             ORDER BY r.n);
        v_whole := cardinality(v_asked) = 0;
        IF v_whole THEN   -- common words alone: where all of them are, or else the rarest
            v_asked := ARRAY[(SELECT string_agg(t::text, ' & ')::tsquery FROM unnest(v_terms) AS t), v_terms[1]];
        END IF;
    END IF;

    RETURN QUERY
        WITH hit AS MATERIALIZED (
            SELECT t.n, h.id
              FROM unnest(v_asked) WITH ORDINALITY AS t (query, n),
                   LATERAL (SELECT c.id FROM chunk AS c
                             WHERE c.words @@ (t.query && v_within) AND c.tenant = p_tenant
                             LIMIT c_budget) AS h
             WHERE p_scope IS NULL
            UNION ALL
            SELECT t.n, c.id
              FROM unnest(p_scope) AS s (id)
              JOIN chunk AS c ON c.id = s.id
              JOIN unnest(v_asked) WITH ORDINALITY AS t (query, n) ON c.words @@ t.query
             WHERE c.tenant = p_tenant
        ), term AS MATERIALIZED (
            SELECT t.n, t.query, ln(1 + v_size / greatest(coalesce(g.rows, t.rows), 1)) AS rarity
              FROM unnest(v_terms, v_rows) WITH ORDINALITY AS t (query, rows, n)
              LEFT JOIN (SELECT h.n, count(*) AS rows FROM hit AS h WHERE NOT v_whole GROUP BY h.n) AS g USING (n)
        ), rough AS MATERIALIZED (
            SELECT h.id FROM hit AS h JOIN term AS t USING (n)
             GROUP BY h.id ORDER BY sum(t.rarity) DESC LIMIT c_refined
        ), refined AS MATERIALIZED (
            -- The root: that a word is there counts more than how often.
            SELECT r.id, (SELECT sum(t.rarity * sqrt(ts_rank('{0.1, 0.2, 0.6, 1}', u.words, t.query))) FROM term AS t) AS weight
              FROM rough AS r
              JOIN chunk AS c ON c.id = r.id
             -- Unpacked once, not once a term.
             CROSS JOIN LATERAL (SELECT c.words || ''::tsvector AS words OFFSET 0) AS u
        ), sorted AS (
            SELECT r.id, r.weight FROM refined AS r ORDER BY r.weight DESC, r.id OFFSET 0
        )
        SELECT s.id, s.weight FROM sorted AS s
         WHERE p_filters IS NULL
            OR (SELECT true FROM search_place AS p
                 WHERE p.chunk = s.id AND p.tenant = p_tenant
                   AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
         LIMIT p_most;
END
$$;
