-- The chunks that share words with the question, best first: rare words count more, and so do words in headings.
--
-- A natural question has words that no answer has, so a chunk needs a rare one of them, or two that are common: these
-- alone would find too much to look at. Quoted phrases and -words are taken at their word.
-- `p_also` are chunks that are weighed in any case. Without filters, of deleted documents too. `p_size` is how many chunks there are, NULL if they are many.
CREATE FUNCTION :"schema".search_words_v1(
    p_tenant text, p_editions bigint[], p_scope bigint[], p_size bigint, p_language regconfig, p_words text,
    p_also bigint[], p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, weight double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    c_terms   constant integer := 10;     -- so many of the rarest are looked for
    c_matches constant integer := 2000;   -- so many chunks are looked at
    c_pairs   constant integer := 1;      -- of terms that are too common alone
    c_refined constant integer := 100;    -- so many are weighed by where their words stand
    v_within  tsquery := (SELECT string_agg(format('''_e%s''', e), ' | ')::tsquery FROM unnest(p_editions) AS e);
    v_strict  tsquery := search_strict_v1(p_language, p_words);
    v_size    double precision := coalesce(p_size, c_matches);
    v_common  text[];                     -- what Postgres has counted
    v_shares  real[];
    v_terms   tsquery[];
    v_rows    double precision[];         -- about how many chunks have the term
    v_alone   integer;                    -- so many of the terms are rare enough
    v_asked   tsquery[];                  -- those, and pairs of others
    v_first   integer[];                  -- which terms they have
    v_second  integer[];
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
              FROM unnest(tsvector_to_array(to_tsvector(p_language, left(p_words, 2000)))) AS w (term)
             ORDER BY rows LIMIT c_terms) AS t;
    IF v_terms IS NULL THEN
        RETURN;
    END IF;

    IF v_strict IS NOT NULL THEN
        v_asked := ARRAY[v_strict];
        v_first := ARRAY[1];
        v_second := ARRAY[1];
    ELSE
        SELECT greatest(count(*) FILTER (WHERE r.running <= c_matches OR p_scope IS NOT NULL), 1) INTO v_alone
          FROM (SELECT sum(t.rows) OVER (ORDER BY t.n) AS running FROM unnest(v_rows) WITH ORDINALITY AS t (rows, n)) AS r;
        SELECT v_terms[:v_alone] || array_agg(p.query),
               ARRAY(SELECT generate_series(1, v_alone)) || array_agg(p.first),
               ARRAY(SELECT generate_series(1, v_alone)) || array_agg(p.second)
          INTO v_asked, v_first, v_second
          FROM (SELECT v_terms[a] && v_terms[b] AS query, a AS first, b AS second
                  FROM generate_series(v_alone + 1, cardinality(v_terms)) AS a,
                       generate_series(a + 1, cardinality(v_terms)) AS b
                 ORDER BY v_rows[a] * v_rows[b] LIMIT c_pairs) AS p;
    END IF;

    RETURN QUERY
        WITH hit AS MATERIALIZED (
            SELECT t.first, t.second, h.id
              FROM unnest(v_asked, v_first, v_second) AS t (query, first, second),
                   LATERAL (SELECT c.id FROM chunk AS c
                             WHERE c.words @@ (t.query && v_within) AND c.tenant = p_tenant
                             LIMIT CASE WHEN t.first = t.second THEN c_matches ELSE c_matches / 4 END) AS h
             WHERE p_scope IS NULL
            UNION ALL
            SELECT t.first, t.second, c.id
              FROM unnest(p_scope) AS s (id)
              JOIN chunk AS c ON c.id = s.id
              JOIN unnest(v_asked, v_first, v_second) AS t (query, first, second) ON c.words @@ t.query
             WHERE c.tenant = p_tenant
        ), term AS MATERIALIZED (
            SELECT t.n, t.query, ln(1 + v_size / greatest(coalesce(g.rows, t.rows), 1)) AS rarity
              FROM unnest(v_terms, v_rows) WITH ORDINALITY AS t (query, rows, n)
              LEFT JOIN (SELECT h.first AS n, count(*) AS rows FROM hit AS h
                          WHERE h.first = h.second AND v_strict IS NULL GROUP BY 1) AS g USING (n)
        ), rough AS MATERIALIZED (
            SELECT h.id
              FROM hit AS h JOIN term AS a ON a.n = h.first JOIN term AS b ON b.n = h.second
             GROUP BY h.id ORDER BY sum(a.rarity + b.rarity) DESC LIMIT c_refined
        ), refined AS MATERIALIZED (
            -- The root: that a word is there counts more than how often.
            SELECT r.id, (SELECT sum(t.rarity * sqrt(ts_rank('{0.1, 0.2, 0.6, 1}', u.words, t.query))) FROM term AS t) AS weight
              FROM (SELECT o.id FROM rough AS o UNION SELECT a.id FROM unnest(p_also) AS a (id)) AS r
              JOIN chunk AS c ON c.id = r.id AND c.tenant = p_tenant AND (v_strict IS NULL OR c.words @@ v_strict)
             -- Unpacked once, not once a term.
             CROSS JOIN LATERAL (SELECT c.words || ''::tsvector AS words OFFSET 0) AS u
        ), sorted AS (
            SELECT r.id, r.weight FROM refined AS r WHERE r.weight > 0 ORDER BY r.weight DESC, r.id OFFSET 0
        )
        SELECT s.id, s.weight FROM sorted AS s
         WHERE p_filters IS NULL
            OR (SELECT true FROM search_place AS p
                 WHERE p.chunk = s.id AND p.tenant = p_tenant
                   AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
         LIMIT p_most;
END
$$;
