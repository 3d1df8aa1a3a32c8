-- The best `p_k` chunks of these editions, by meaning and by words, with the places where they stand.
--
-- Under row level security `@@` cannot use its index, because the operator is not leakproof. So this function runs as the
-- owner of the tables, and names the tenant at each of them. A caller under row level security gets an answer about the
-- tenant that the transaction is set to, and about no other.
CREATE FUNCTION :"schema".search_v1(
    p_tenant   text,
    p_editions bigint[],   -- all of one embedder and one language
    p_vector   real[],     -- of the question, by that embedder; may be NULL
    p_words    text,       -- the question; may be NULL
    p_k        integer,
    p_filters  jsonb,      -- documents, sources, tags, metadata: see search_admits_v1
    p_mode     text        -- hybrid, vector, words
) RETURNS TABLE (
    chunk bigint, edition bigint, document bigint, source bigint, path text, title text, url text, "position" integer, page integer,
    heading text, text text, highlight text, others bigint, score double precision, rank_vector integer, rank_words integer,
    base text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", :"vector", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET max_parallel_workers_per_gather = 0
AS $$
#variable_conflict use_column
DECLARE
    c_rank     constant integer := 10;   -- how little a first place counts more than a second
    c_words    constant float8 := 1.5;   -- how much more a place by words counts than one by meaning
    v_filters  jsonb := nullif(p_filters, '{}');
    v_editions bigint[];
    c_few      constant integer := 5000;   -- so many are found by filters before anything else is asked
    c_counted  constant integer := 2000;   -- so many are counted
    v_indexed  bigint[];                 -- those of the editions that have an index
    v_others   bigint[];                 -- those whose chunks are compared one by one
    v_size     bigint;                   -- NULL if they are many
    v_scope    bigint[];
    v_most     integer := greatest(60, 4 * p_k);
    v_near     bigint[] := '{}';
    v_matching bigint[] := '{}';
    v_language regconfig;
    v_must     tsquery;
BEGIN
    IF search_allowed_v1(p_tenant) IS NOT TRUE THEN
        RETURN;
    END IF;
    SELECT array_agg(e.id) INTO v_editions
      FROM edition AS e JOIN base AS b ON b.id = e.base AND b.tenant = p_tenant AND b.deleted_at IS NULL
     WHERE e.id = ANY (p_editions) AND e.tenant = p_tenant;
    IF v_editions IS NULL THEN
        RETURN;
    END IF;

    SELECT coalesce(array_agg(e.id) FILTER (WHERE e.has_index), '{}'), coalesce(array_agg(e.id) FILTER (WHERE NOT e.has_index), '{}')
      INTO v_indexed, v_others
      FROM (SELECT a.id, EXISTS (
                SELECT FROM pg_class AS c JOIN pg_index AS i ON i.indexrelid = c.oid AND i.indisvalid
                 WHERE c.relname = 'chunk_edition_' || a.id AND c.relnamespace = quote_ident(current_schema())::regnamespace) AS has_index
              FROM unnest(v_editions) AS a (id)) AS e;
    IF v_indexed = '{}' THEN
        SELECT nullif(count(*), c_counted + 1) INTO v_size
          FROM (SELECT FROM chunk AS c WHERE c.edition = ANY (v_editions) LIMIT c_counted + 1) AS counted;
    END IF;
    v_scope := search_scope_v1(p_tenant, v_editions, v_filters, c_few);
    SELECT b.language INTO v_language FROM edition AS e JOIN base AS b ON b.id = e.base WHERE e.id = v_editions[1];
    v_must := search_strict_v1(v_language, p_words);

    -- Without filters it is rare that a document was deleted and is still there, so that is asked last; if too few
    -- are left then, it is asked first.
    LOOP
        v_near := '{}';
        IF p_vector IS NOT NULL AND p_mode <> 'words' THEN
            IF v_scope IS NULL AND v_indexed <> '{}' THEN
                v_near := ARRAY(
                    SELECT n.chunk
                      FROM (SELECT i.* FROM unnest(v_indexed) AS e (id)
                             CROSS JOIN LATERAL search_index_v1(p_tenant, e.id, p_vector::halfvec, v_filters, v_most) AS i
                             UNION ALL
                            SELECT x.* FROM search_exact_v1(p_tenant, v_others, NULL, p_vector::halfvec, v_filters, v_most) AS x
                             WHERE v_others <> '{}') AS n (chunk, distance)
                     ORDER BY n.distance, n.chunk LIMIT v_most);
            END IF;
            IF cardinality(v_near) < p_k THEN
                v_near := ARRAY(SELECT n.chunk FROM search_exact_v1(p_tenant, v_editions, v_scope, p_vector::halfvec, v_filters, v_most)
                                  WITH ORDINALITY AS n (chunk, distance, place) ORDER BY n.place);
            END IF;
        END IF;
        IF p_words <> '' AND p_mode <> 'vector' THEN
            v_matching := ARRAY(
                SELECT w.chunk FROM search_words_v1(p_tenant, v_editions, v_scope, v_size, v_language, p_words, v_near, v_filters, v_most + cardinality(v_near))
                  WITH ORDINALITY AS w (chunk, weight, place) ORDER BY w.place);
        END IF;
        IF cardinality(v_near) > 0 AND cardinality(v_matching) > 0 THEN
            v_near := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_near || v_matching) AND c.tenant = p_tenant
                             ORDER BY c.embedding <=> p_vector::halfvec, c.id);
        END IF;
        EXIT WHEN v_filters IS NOT NULL OR greatest(cardinality(v_near), cardinality(v_matching)) < v_most OR p_k = (
            SELECT count(*) FROM (
                SELECT FROM unnest(v_near || v_matching) AS c (id)
                 WHERE (SELECT true FROM search_place_v1 AS p WHERE p.chunk = c.id AND p.tenant = p_tenant LIMIT 1) LIMIT p_k) AS standing);
        v_filters := '{}';
    END LOOP;

    RETURN QUERY
        WITH ranked AS (
            SELECT coalesce(n.chunk, w.chunk) AS chunk, n.place::integer AS rank_vector, w.place::integer AS rank_words,
                   coalesce(1.0 / (c_rank + n.place), 0)::float8 + coalesce(c_words / (c_rank + w.place), 0) AS score
              FROM unnest(v_near) WITH ORDINALITY AS n (chunk, place)
              FULL JOIN unnest(v_matching) WITH ORDINALITY AS w (chunk, place) ON w.chunk = n.chunk
        ), sorted AS (
            SELECT r.* FROM ranked AS r ORDER BY r.score DESC, r.chunk OFFSET 0
        )
        SELECT r.chunk, c.edition, f.document, f.source, f.path, f.title, f.url, f.position, f.page, c.heading, c.text,
               CASE WHEN p_words <> '' THEN search_highlight_v1(v_language, c.text, p_words) END,
               f.documents - 1, r.score, r.rank_vector, r.rank_words,
               (SELECT b.name FROM edition AS e JOIN base AS b ON b.id = e.base WHERE e.id = c.edition AND e.tenant = p_tenant)
          FROM sorted AS r
         CROSS JOIN LATERAL (
            SELECT a.* FROM chunk AS a
             WHERE a.id = r.chunk AND a.tenant = p_tenant AND (v_must IS NULL OR a.words @@ v_must) OFFSET 0) AS c
         CROSS JOIN LATERAL (
            SELECT p.*, count(*) OVER () AS documents
              FROM (SELECT DISTINCT ON (a.document) a.* FROM search_place_v1 AS a
                     WHERE a.chunk = r.chunk AND a.tenant = p_tenant
                       AND search_admits_v1(coalesce(v_filters, '{}'), a.document, a.source, a.tags, a.metadata)
                     ORDER BY a.document, a.position) AS p
             ORDER BY p.document LIMIT 1) AS f
         LIMIT p_k;
END
$$;
REVOKE ALL ON FUNCTION :"schema".search_v1(text, bigint[], real[], text, integer, jsonb, text) FROM PUBLIC;
