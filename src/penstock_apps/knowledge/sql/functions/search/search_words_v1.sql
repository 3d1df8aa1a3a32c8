-- The chunks that share words with the question, best first. Rare words count more, and so do words in headings.
--
-- A natural question has words that no answer has. So a chunk needs one rare word of it, or two common ones: one common
-- word alone would find too many chunks to look at. Quoted phrases and -words must match as they are.
-- `p_also` are chunks that are weighed in any case. `p_size` is how many chunks there are, NULL if they are many. Without
-- filters, chunks of deleted documents are found too.
CREATE FUNCTION :"schema".search_words_v1(
    p_tenant text, p_editions bigint[], p_scope bigint[], p_size bigint, p_language regconfig, p_words text,
    p_also bigint[], p_filters jsonb, p_most integer
) RETURNS TABLE (chunk bigint, weight double precision)
LANGUAGE plpgsql STABLE
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
    c_terms  constant integer := 10;      -- so many of the rarest are looked for
    v_read   integer := 300;              -- so many chunks are read: those of the rarest terms first
    v_all    double precision := (SELECT greatest(c.reltuples, 1) FROM pg_class AS c WHERE c.oid = 'chunk'::regclass);
    v_within tsquery := (SELECT string_agg(format('''_e%s''', e), ' | ')::tsquery FROM unnest(p_editions) AS e);   -- NULL: all chunks
    v_strict tsquery := search_strict_v1(p_language, p_words);
    v_size   double precision;
    v_common text[];                      -- what Postgres has counted
    v_shares real[];
    v_terms  tsquery[];
    v_rows   double precision[];          -- about how many chunks have the term
    v_alone  integer;                     -- so many of the terms are rare enough
    v_asked  tsquery[];                   -- those, then pairs of others
BEGIN
    SELECT p.most_common_elems::text::text[], p.most_common_elem_freqs INTO v_common, v_shares
      FROM pg_stats AS p WHERE p.schemaname = current_schema() AND p.tablename = 'chunk' AND p.attname = 'words';
    v_size := coalesce(p_size, greatest(2000, v_all * (
        SELECT sum(v_shares[array_position(v_common, '_e' || e)]) FROM unnest(p_editions) AS e)));
    -- Nobody knows which terms are rare, or how many of those that are read will pass.
    IF v_common IS NULL OR p_filters IS NOT NULL THEN
        v_read := 2000;
    END IF;
    IF v_common IS NOT NULL AND v_size > v_all / 3 THEN
        v_within := NULL;   -- To read the chunks of others, and leave them out, costs less than to look all of these up.
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

    SELECT count(*) FILTER (WHERE r.running <= v_read) INTO v_alone
      FROM (SELECT sum(t.rows) OVER (ORDER BY t.n) AS running FROM unnest(v_rows) WITH ORDINALITY AS t (rows, n)) AS r;
    v_asked := CASE WHEN v_strict IS NOT NULL THEN ARRAY[v_strict] ELSE v_terms[:v_alone] || ARRAY(
        SELECT v_terms[a] && v_terms[b]
          FROM generate_series(v_alone + 1, cardinality(v_terms)) AS a, generate_series(a + 1, cardinality(v_terms)) AS b
         ORDER BY v_rows[a] * v_rows[b]) || CASE WHEN v_alone = 0 THEN v_terms[:1] END END;

    RETURN QUERY
        WITH hit AS MATERIALIZED (
            SELECT t.n, h.id, h.words
              FROM unnest(v_asked) WITH ORDINALITY AS t (query, n),
                   LATERAL (SELECT c.id, c.words FROM chunk AS c
                             WHERE c.words @@ coalesce(t.query && v_within, t.query)
                               AND c.tenant = p_tenant AND c.edition = ANY (p_editions) IS TRUE) AS h
             WHERE p_scope IS NULL LIMIT v_read
        ), term AS MATERIALIZED (
            SELECT t.query, ln(1 + v_size / greatest(coalesce(g.rows, t.rows), 1)) AS rarity
              FROM unnest(v_terms, v_rows) WITH ORDINALITY AS t (query, rows, n)
              -- Of the last one, not all may have been read.
              LEFT JOIN (SELECT h.n, count(*) AS rows FROM hit AS h
                          WHERE v_strict IS NULL AND h.n <= v_alone
                            AND h.n <= (SELECT max(l.n) - (count(*) = v_read)::integer FROM hit AS l) GROUP BY 1) AS g USING (n)
        ), read AS (
            SELECT DISTINCT ON (h.id) h.id, h.words FROM hit AS h
            UNION ALL
            SELECT c.id, c.words FROM chunk AS c
             WHERE c.id = ANY (p_also || p_scope) AND c.tenant = p_tenant AND (v_strict IS NULL OR c.words @@ v_strict)
               AND NOT EXISTS (SELECT FROM hit AS h WHERE h.id = c.id)
        ), weighed AS MATERIALIZED (
            -- The root: that a word is there counts more than how often. And less in a chunk that has many.
            SELECT u.id, (SELECT sum(t.rarity * sqrt(ts_rank('{0.1, 0.2, 0.6, 1}', u.words, t.query))) FROM term AS t)
                   / (160 + length(u.words)) AS weight
             -- Unpacked once, not once a term: what is deleted is not there.
              FROM (SELECT r.id, ts_delete(r.words, '') AS words FROM read AS r OFFSET 0) AS u
        ), sorted AS (
            SELECT w.id, w.weight FROM weighed AS w WHERE w.weight > 0 ORDER BY w.weight DESC, w.id OFFSET 0
        )
        SELECT s.id, s.weight FROM sorted AS s
         WHERE p_filters IS NULL
            OR (SELECT true FROM search_place_v1 AS p
                 WHERE p.chunk = s.id AND p.tenant = p_tenant
                   AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
         LIMIT p_most;
END
$$;
