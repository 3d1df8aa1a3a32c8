== functions
CREATE OR REPLACE FUNCTION penstock_knowledge.ask_missing_v1(p_tenant text, p_edition bigint, p_hashes bytea[], OUT missing bytea[], OUT active boolean)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
BEGIN
    PERFORM set_config('penstock.tenant', p_tenant, true);
    SELECT coalesce(array_agg(m.hash), '{}') INTO missing FROM missing_v1(p_tenant, p_edition, p_hashes) AS m (hash);
    active := NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = p_tenant AND (NOT t.active OR t.deleted_at IS NOT NULL));
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.begin_document_v1(p_tenant text, p_document bigint, p_version integer)
 RETURNS TABLE(path text, media_type text, bytes bigint, digest bytea, stored boolean, url text, published integer, depth integer, attached_to text, has_attachments boolean, object text, editions text[])
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
BEGIN
    PERFORM set_config('penstock.tenant', p_tenant, true), set_config('synchronous_commit', 'off', true);
    RETURN QUERY
    UPDATE document AS d
       SET state = 'processing', updated_at = clock_timestamp()
      FROM base AS b, source AS s
     WHERE d.tenant = p_tenant AND d.id = p_document AND d.version = p_version AND d.deleted_at IS NULL
       AND b.id = d.base AND b.deleted_at IS NULL AND s.id = d.source AND s.deleted_at IS NULL
       AND NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = d.tenant AND (NOT t.active OR t.deleted_at IS NOT NULL))
    RETURNING d.path, d.media_type, d.bytes, d.digest, d.stored, d.url, d.published, d.depth, d.attached_to,
              EXISTS (SELECT FROM document AS c WHERE c.parent = d.id AND c.deleted_at IS NULL),
              (SELECT o.name FROM object AS o WHERE o.tenant = d.tenant AND o.digest = d.digest),
              ARRAY(SELECT jsonb_build_object('id', e.id, 'settings', e.settings, 'embedder', e.embedder,
                                              'dimensions', e.dimensions, 'live', e.state = 'live')::text
                      FROM edition AS e WHERE e.base = d.base AND e.state IN ('live', 'building')
                     ORDER BY e.state DESC);
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.count_documents_v1()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'penstock_knowledge', 'pg_temp'
AS $function$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT a.tenant, a.base, a.source, a.state, count(*) FROM added AS a
         WHERE a.deleted_at IS NULL GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT r.tenant, r.base, r.source, r.state, -count(*) FROM removed AS r
         WHERE r.deleted_at IS NULL GROUP BY 1, 2, 3, 4;
    ELSE
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT c.tenant, c.base, c.source, c.state, sum(c.number)
          FROM (SELECT a.tenant, a.base, a.source, a.state, 1 AS number FROM added AS a WHERE a.deleted_at IS NULL
                UNION ALL
                SELECT r.tenant, r.base, r.source, r.state, -1 FROM removed AS r WHERE r.deleted_at IS NULL) AS c
         GROUP BY 1, 2, 3, 4
        HAVING sum(c.number) <> 0;
    END IF;
    RETURN NULL;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.describe_index_v1(p_edition bigint, p_how text)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'penstock_knowledge', 'pg_temp'
AS $function$
    SELECT format(
        'CREATE INDEX %1$s chunk_edition_%2$s ON "penstock_knowledge".chunk'
        ' USING hnsw ((embedding::"public".halfvec(%3$s)) "public".halfvec_cosine_ops) WITH (m = 12, ef_construction = 64)'
        ' WHERE edition = %2$s', p_how, e.id, e.dimensions)
      FROM edition AS e JOIN base AS b ON b.id = e.base AND b.deleted_at IS NULL
     WHERE e.id = p_edition AND e.state <> 'retired'
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.drop_index_v1(p_edition bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
 SET lock_timeout TO '2s'
AS $function$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('penstock knowledge indexes', 0)) THEN
        RETURN false;
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS "penstock_knowledge".chunk_edition_%s', p_edition);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.fold_tallies_v1(p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'penstock_knowledge', 'pg_temp'
AS $function$
DECLARE
    v_folded integer;
BEGIN
    WITH taken AS MATERIALIZED (
        DELETE FROM tally_change
         WHERE ctid = ANY (ARRAY(SELECT c.ctid FROM tally_change AS c LIMIT p_most FOR UPDATE SKIP LOCKED))
        RETURNING tenant, base, source, state, number
    ), folded AS (
        INSERT INTO tally AS t (tenant, base, source, state, number)
        SELECT tenant, base, source, state, sum(number) FROM taken GROUP BY 1, 2, 3, 4 ORDER BY 3, 4
        ON CONFLICT (source, state) DO UPDATE SET number = t.number + excluded.number
    )
    SELECT count(*) INTO v_folded FROM taken;
    RETURN v_folded;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.keep_vectors_v1(p_tenant text, p_embedder text, p_hashes bytea[], p_vectors halfvec[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
AS $function$
    INSERT INTO vector (tenant, embedder, hash, embedding)
    SELECT p_tenant, p_embedder, u.hash, u.embedding FROM unnest(p_hashes, p_vectors) AS u (hash, embedding) ORDER BY u.hash
    ON CONFLICT (tenant, embedder, hash) DO NOTHING
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.make_index_v1(p_edition bigint, p_memory text)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
AS $function$
DECLARE
    v_described text := describe_index_v1(p_edition, 'IF NOT EXISTS');
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('penstock knowledge indexes', 0)) THEN
        RETURN false;
    END IF;
    IF v_described IS NULL THEN
        RETURN true;
    END IF;
    PERFORM set_config('maintenance_work_mem', p_memory, true);
    BEGIN
        EXECUTE v_described;
    EXCEPTION WHEN disk_full THEN
        -- Of the memory that processes share: containers may have little.
        PERFORM set_config('max_parallel_maintenance_workers', '0', true);
        EXECUTE v_described;
    END;
    RETURN true;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.missing_v1(p_tenant text, p_edition bigint, p_hashes bytea[])
 RETURNS SETOF bytea
 LANGUAGE sql
 STABLE
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
    WITH same AS MATERIALIZED (
        SELECT array_agg(e.id) AS editions, min(e.embedder) AS embedder
          FROM edition AS e
         WHERE e.tenant = p_tenant
           AND e.embedder = (SELECT o.embedder FROM edition AS o WHERE o.id = p_edition AND o.tenant = p_tenant)
    )
    SELECT DISTINCT h.hash
      FROM unnest(p_hashes) AS h (hash), same AS s
     -- Text by text: joined, a plan from when the tables were small would read all chunks of the editions.
     WHERE (SELECT c.id FROM chunk AS c
             WHERE c.edition = ANY (s.editions) AND c.hash = h.hash AND c.tenant = p_tenant LIMIT 1) IS NULL
       AND (SELECT v.hash FROM vector AS v
             WHERE v.tenant = p_tenant AND v.embedder = s.embedder AND v.hash = h.hash) IS NULL
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.publish_v1(p_tenant text, p_document bigint, p_version integer, p_edition bigint, p_hashes bytea[], p_texts text[], p_headings text[], p_tokens integer[], p_pages integer[], p_vectors halfvec[], p_facts jsonb, OUT answer text, OUT added integer, OUT missing bytea[])
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
DECLARE
    v_document document;
    v_edition  edition;
    v_language regconfig;
    v_same     bigint[];     -- other editions whose vectors are as good
    v_before   bigint[];
    v_new      bigint[];
    v_now      bigint[];     -- chunk by position
    v_stale    bigint[];
    v_allowed  record;
    v_usage    record;
    v_tokens   bigint := coalesce((SELECT sum(t) FROM unnest(p_tokens) AS t), 0);
    v_count    integer := cardinality(p_hashes);
BEGIN
    added := 0;
    -- Who has quotas publishes one by one, so that two do not both find room for one.
    SELECT coalesce((t.settings#>>'{quotas,chunks}')::bigint, (p_facts#>>'{quotas,chunks}')::bigint, 0) AS chunks,
           coalesce((t.settings#>>'{quotas,tokens}')::bigint, (p_facts#>>'{quotas,tokens}')::bigint, 0) AS tokens
      INTO v_allowed FROM (VALUES (1)) AS one LEFT JOIN tenant AS t ON t.tenant = p_tenant;
    IF v_allowed.chunks > 0 OR v_allowed.tokens > 0 THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('penstock knowledge: ' || p_tenant, 0));
    END IF;
    SELECT d.* INTO v_document FROM document AS d
     WHERE d.id = p_document AND d.tenant = p_tenant AND d.version = p_version AND d.deleted_at IS NULL
       FOR NO KEY UPDATE;
    -- Nobody switches editions until the end of this.
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('penstock knowledge edition: ' || v_document.base, 0));
    SELECT e.* INTO v_edition FROM edition AS e
     WHERE e.id = p_edition AND e.tenant = p_tenant AND e.base = v_document.base AND e.state <> 'retired';
    IF v_document.id IS NULL
       -- What is rebuilt must still be what is found, and nothing else on its way.
       OR p_facts ? 'published' AND (v_document.published IS DISTINCT FROM (p_facts->>'published')::integer
                                     OR v_document.state IN ('pending', 'processing'))
       OR EXISTS (SELECT FROM tenant AS t WHERE t.tenant = p_tenant AND (NOT t.active OR t.deleted_at IS NOT NULL))
       OR EXISTS (SELECT FROM source AS s WHERE s.id = v_document.source AND s.deleted_at IS NOT NULL)
       OR EXISTS (SELECT FROM base AS b WHERE b.id = v_document.base AND b.deleted_at IS NOT NULL) THEN
        answer := 'stale';
        RETURN;
    END IF;
    IF v_edition.id IS NULL THEN
        answer := 'retired';
        RETURN;
    END IF;
    IF v_edition.state = 'live' AND (v_allowed.chunks > 0 OR v_allowed.tokens > 0) THEN
        SELECT coalesce(sum(u.chunks), 0) - v_document.chunks + v_count AS chunks,
               coalesce(sum(u.tokens), 0) - v_document.tokens + v_tokens AS tokens
          INTO v_usage FROM usage AS u WHERE u.tenant = p_tenant;
        IF v_allowed.chunks > 0 AND v_usage.chunks > v_allowed.chunks
           OR v_allowed.tokens > 0 AND v_usage.tokens > v_allowed.tokens THEN
            answer := 'quota';
            RETURN;
        END IF;
    END IF;
    SELECT b.language::regconfig INTO v_language FROM base AS b WHERE b.id = v_document.base;
    SELECT array_agg(e.id) INTO v_same FROM edition AS e
     WHERE e.tenant = p_tenant AND e.embedder = v_edition.embedder AND e.id <> p_edition;
    SELECT coalesce(array_agg(p.chunk), '{}') INTO v_before FROM passage AS p
     WHERE p.document = p_document AND p.edition = p_edition;

    -- In the order of their hashes: whoever publishes the same texts waits, and nobody for each other. What is there is
    -- asked for text by text: joined, a plan from when the tables were small would read all chunks of the edition.
    WITH given AS MATERIALIZED (
        SELECT DISTINCT ON (g.hash) g.hash, g.tokens, g.heading, g.text, g.vector
          FROM unnest(p_hashes, p_tokens, p_headings, p_texts, p_vectors) WITH ORDINALITY
                   AS g (hash, tokens, heading, text, vector, position)
         ORDER BY g.hash, g.position
    ), wanted AS MATERIALIZED (
        SELECT g.hash, g.tokens, g.heading, g.text,
               coalesce(g.vector,
                   (SELECT v.embedding FROM vector AS v
                     WHERE v.tenant = p_tenant AND v.embedder = v_edition.embedder AND v.hash = g.hash),
                   (SELECT c.embedding FROM chunk AS c
                     WHERE c.edition = ANY (v_same) AND c.hash = g.hash AND c.tenant = p_tenant LIMIT 1)) AS embedding
          FROM given AS g
         WHERE (SELECT c.id FROM chunk AS c WHERE c.edition = p_edition AND c.hash = g.hash) IS NULL
    ), inserted AS (
        INSERT INTO chunk (tenant, edition, hash, tokens, heading, text, embedding, words)
        SELECT p_tenant, p_edition, w.hash, w.tokens, w.heading, w.text, w.embedding,
               setweight(to_tsvector(v_language, w.heading), 'A')
                   || setweight(to_tsvector(v_language, w.text), 'B')
                   || array_to_tsvector(ARRAY['_e' || p_edition])
          FROM wanted AS w
         WHERE w.embedding IS NOT NULL
         ORDER BY w.hash
        ON CONFLICT (edition, hash) DO NOTHING
        RETURNING id
    )
    SELECT coalesce(array_agg(i.id), '{}') INTO v_new FROM inserted AS i;
    added := cardinality(v_new);

    -- What others have put there must stay until we point to it.
    PERFORM FROM chunk AS c
     WHERE c.edition = p_edition AND c.hash = ANY (p_hashes) AND NOT c.id = ANY (v_new) AND NOT c.id = ANY (v_before)
     ORDER BY c.hash FOR KEY SHARE;
    WITH found AS MATERIALIZED (
        SELECT h.hash, h.position, (SELECT c.id FROM chunk AS c WHERE c.edition = p_edition AND c.hash = h.hash) AS chunk
          FROM unnest(p_hashes) WITH ORDINALITY AS h (hash, position)
    )
    SELECT array_agg(f.chunk ORDER BY f.position), array_agg(DISTINCT f.hash) FILTER (WHERE f.chunk IS NULL)
      INTO v_now, missing
      FROM found AS f;
    IF missing IS NOT NULL THEN
        answer := 'missing';
        RETURN;
    END IF;

    DELETE FROM passage AS p WHERE p.document = p_document AND p.edition = p_edition;
    INSERT INTO passage (tenant, document, edition, position, chunk, page)
    SELECT p_tenant, p_document, p_edition, n.position, n.chunk, p_pages[n.position]
      FROM unnest(v_now) WITH ORDINALITY AS n (chunk, position);

    -- Locked first: the statement after it sees who has pointed to one meanwhile. What is locked is in use.
    v_stale := ARRAY(SELECT DISTINCT b FROM unnest(v_before) AS b WHERE NOT b = ANY (coalesce(v_now, '{}')));
    IF cardinality(v_stale) > 0 THEN
        v_stale := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_stale) FOR UPDATE SKIP LOCKED);
        DELETE FROM chunk AS c
         WHERE c.id = ANY (v_stale) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    END IF;

    DELETE FROM vector AS v WHERE v.tenant = p_tenant AND v.embedder = v_edition.embedder AND v.hash = ANY (p_hashes);
    DELETE FROM draft AS d WHERE d.document = p_document AND d.edition = p_edition;
    answer := 'published';
    IF v_edition.state <> 'live' THEN
        RETURN;
    END IF;
    UPDATE document AS d
       SET state = 'completed', reason = NULL, error = NULL, published = p_version, ended_at = clock_timestamp(),
           updated_at = clock_timestamp(), chunks = v_count, tokens = v_tokens,
           embedded = coalesce((p_facts->>'embedded')::integer, 0), title = p_facts->>'title', kind = p_facts->>'kind',
           pages = (p_facts->>'pages')::integer
     WHERE d.id = p_document;
    INSERT INTO usage AS u (tenant, slot, chunks, tokens)
    VALUES (p_tenant, p_document % 16, v_count - v_document.chunks, v_tokens - v_document.tokens)
    ON CONFLICT (tenant, slot) DO UPDATE SET chunks = u.chunks + excluded.chunks, tokens = u.tokens + excluded.tokens;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.remove_chunks_v1(p_tenant text, p_edition bigint, p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
    v_chunks bigint[] := ARRAY(
        SELECT c.id FROM chunk AS c WHERE c.edition = p_edition AND c.tenant = p_tenant LIMIT p_most FOR UPDATE);
BEGIN
    DELETE FROM passage AS p WHERE p.chunk = ANY (v_chunks);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks);
    RETURN cardinality(v_chunks);
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.remove_documents_v1(p_tenant text, p_documents bigint[])
 RETURNS SETOF bytea
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
    v_chunks bigint[];
BEGIN
    -- Who publishes one of them now is waited for: the statements after this one see what it has left.
    PERFORM FROM document AS d WHERE d.tenant = p_tenant AND d.id = ANY (p_documents) ORDER BY d.id FOR UPDATE;
    WITH gone AS (
        DELETE FROM passage AS p WHERE p.tenant = p_tenant AND p.document = ANY (p_documents) RETURNING p.chunk
    )
    SELECT array_agg(DISTINCT g.chunk) INTO v_chunks FROM gone AS g;
    -- What is locked is in use.
    v_chunks := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_chunks) AND c.tenant = p_tenant FOR UPDATE SKIP LOCKED);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    DELETE FROM draft AS d WHERE d.tenant = p_tenant AND d.document = ANY (p_documents);

    RETURN QUERY
        WITH gone AS (
            DELETE FROM document AS d WHERE d.tenant = p_tenant AND d.id = ANY (p_documents)
            RETURNING d.id, d.bytes, d.chunks, d.tokens, d.digest
        ), counted AS (
            INSERT INTO usage AS u (tenant, slot, documents, bytes, chunks, tokens)
            SELECT p_tenant, g.id % 16, -count(*), -sum(g.bytes), -sum(g.chunks), -sum(g.tokens) FROM gone AS g GROUP BY 2 ORDER BY 2
            ON CONFLICT (tenant, slot) DO UPDATE
               SET documents = u.documents + excluded.documents, bytes = u.bytes + excluded.bytes,
                   chunks = u.chunks + excluded.chunks, tokens = u.tokens + excluded.tokens
        )
        SELECT DISTINCT g.digest FROM gone AS g WHERE g.digest IS NOT NULL;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_admits_v1(p_filters jsonb, p_document bigint, p_source bigint, p_tags text[], p_metadata jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT (p_filters->'documents' IS NULL OR p_filters->'documents' @> to_jsonb(p_document))
       AND (p_filters->'sources' IS NULL OR p_filters->'sources' @> to_jsonb(p_source))
       AND (p_filters->'tags' IS NULL OR p_filters->'tags' ?| p_tags)
       AND (p_filters->'metadata' IS NULL OR p_metadata @> (p_filters->'metadata'))
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_allowed_v1(p_tenant text)
 RETURNS boolean
 LANGUAGE sql
 STABLE
 SET search_path TO 'penstock_knowledge', 'pg_temp'
AS $function$
    SELECT NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = p_tenant AND t.deleted_at IS NOT NULL)
       AND (NOT c.relrowsecurity OR coalesce(p_tenant = nullif(current_setting('penstock.tenant', true), ''), false)
            OR pg_has_role(coalesce(nullif(current_setting('role', true), 'none'), session_user), c.relowner, 'USAGE'))
      FROM pg_class AS c WHERE c.oid = 'chunk'::regclass
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_exact_v1(p_tenant text, p_editions bigint[], p_scope bigint[], p_vector halfvec, p_filters jsonb, p_most integer)
 RETURNS TABLE(chunk bigint, distance double precision)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_indexscan TO 'off'
 SET jit TO 'off'
 SET max_parallel_workers_per_gather TO '0'
AS $function$
BEGIN
    IF p_scope IS NOT NULL THEN
        RETURN QUERY
            SELECT c.id, c.embedding <=> p_vector
              FROM chunk AS c WHERE c.id = ANY (p_scope) AND c.tenant = p_tenant
             ORDER BY 2 LIMIT p_most;
    ELSIF p_filters IS NULL THEN
        RETURN QUERY
            SELECT c.id, c.embedding <=> p_vector
              FROM chunk AS c WHERE c.edition = ANY (p_editions) AND c.tenant = p_tenant
             ORDER BY 2 LIMIT p_most;
    ELSE
        -- Sorted first, and asked in that order: those that are far away never are.
        RETURN QUERY
            SELECT n.id, n.distance
              FROM (SELECT c.id, c.embedding <=> p_vector AS distance
                      FROM chunk AS c WHERE c.edition = ANY (p_editions) AND c.tenant = p_tenant
                     ORDER BY 2 OFFSET 0) AS n
             WHERE (SELECT true FROM search_place AS p
                     WHERE p.chunk = n.id AND p.tenant = p_tenant
                       AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
             LIMIT p_most;
    END IF;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_highlight_v1(p_language regconfig, p_text text, p_words text)
 RETURNS text
 LANGUAGE sql
 STABLE
AS $function$
    SELECT ts_headline(p_language, p_text, replace(plainto_tsquery(p_language, left(p_words, 2000))::text, '&', '|')::tsquery,
                       'StartSel=**, StopSel=**, MaxFragments=2, MinWords=8, MaxWords=30, FragmentDelimiter=" … "')
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_index_v1(p_tenant text, p_edition bigint, p_vector halfvec, p_filters jsonb, p_most integer)
 RETURNS TABLE(chunk bigint, distance double precision)
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_sort TO 'off'
 SET jit TO 'off'
AS $function$
BEGIN
    -- Not as settings of this function: who has not used pgvector yet may not know them.
    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '400', true);
    RETURN QUERY EXECUTE format($q$
        WITH near AS MATERIALIZED (
            SELECT c.id, c.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s) AS distance
              FROM chunk AS c
             WHERE c.edition = %2$s AND c.tenant = $2 AND %3$s
             ORDER BY c.embedding::halfvec(%1$s) <=> $1::halfvec(%1$s)
             LIMIT $4)
        SELECT id, distance FROM near ORDER BY distance + 0 $q$,
        vector_dims(p_vector), p_edition,
        CASE WHEN p_filters IS NULL THEN 'true' ELSE $q$
            (SELECT true FROM search_place AS p
              WHERE p.chunk = c.id AND p.tenant = $2
                AND search_admits_v1($3, p.document, p.source, p.tags, p.metadata) LIMIT 1)$q$ END)
        USING p_vector, p_tenant, p_filters, p_most;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_scope_v1(p_tenant text, p_editions bigint[], p_filters jsonb, p_most integer)
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
 SET max_parallel_workers_per_gather TO '0'
AS $function$
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
        SELECT p.chunk FROM search_place AS p
         WHERE p.document = ANY (v_found) AND p.edition = ANY (p_editions) AND p.tenant = p_tenant
           AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata)
         LIMIT p_most + 1);
    IF cardinality(v_found) > p_most THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT DISTINCT f FROM unnest(v_found) AS f);
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_strict_v1(p_language regconfig, p_words text)
 RETURNS tsquery
 LANGUAGE sql
 STABLE
AS $function$
    SELECT CASE WHEN p_words ~ '"[^"]+"|(^|\s)-\w' AND numnode(websearch_to_tsquery(p_language, p_words)) > 0
                THEN websearch_to_tsquery(p_language, p_words) END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_v1(p_tenant text, p_editions bigint[], p_vector real[], p_words text, p_k integer, p_filters jsonb, p_mode text)
 RETURNS TABLE(chunk bigint, edition bigint, document bigint, source bigint, path text, title text, url text, "position" integer, page integer, heading text, text text, highlight text, others bigint, score double precision, rank_vector integer, rank_words integer, base text)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'penstock_knowledge', 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
 SET max_parallel_workers_per_gather TO '0'
AS $function$
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
                 WHERE (SELECT true FROM search_place AS p WHERE p.chunk = c.id AND p.tenant = p_tenant LIMIT 1) LIMIT p_k) AS standing);
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
              FROM (SELECT DISTINCT ON (a.document) a.* FROM search_place AS a
                     WHERE a.chunk = r.chunk AND a.tenant = p_tenant
                       AND search_admits_v1(coalesce(v_filters, '{}'), a.document, a.source, a.tags, a.metadata)
                     ORDER BY a.document, a.position) AS p
             ORDER BY p.document LIMIT 1) AS f
         LIMIT p_k;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.search_words_v1(p_tenant text, p_editions bigint[], p_scope bigint[], p_size bigint, p_language regconfig, p_words text, p_also bigint[], p_filters jsonb, p_most integer)
 RETURNS TABLE(chunk bigint, weight double precision)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET jit TO 'off'
 SET max_parallel_workers_per_gather TO '0'
AS $function$
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
            OR (SELECT true FROM search_place AS p
                 WHERE p.chunk = s.id AND p.tenant = p_tenant
                   AND search_admits_v1(p_filters, p.document, p.source, p.tags, p.metadata) LIMIT 1)
         LIMIT p_most;
END
$function$

CREATE OR REPLACE FUNCTION penstock_knowledge.sweep_chunks_v1(p_most integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'penstock_knowledge', 'pg_temp'
 SET enable_seqscan TO 'off'
AS $function$
DECLARE
    v_from    bigint := CASE WHEN (SELECT count(*) FROM (SELECT FROM chunk LIMIT p_most) AS few) < p_most THEN 0
                           ELSE floor(random() * (SELECT max(c.id) FROM chunk AS c)) END;
    v_chunks  bigint[];
    v_removed integer;
BEGIN
    v_chunks := ARRAY(
        SELECT n.id FROM (SELECT c.id FROM chunk AS c WHERE c.id >= v_from ORDER BY c.id LIMIT p_most) AS n
         WHERE NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = n.id));
    -- Locked first: the statement after it sees who has pointed to one meanwhile.
    v_chunks := ARRAY(SELECT c.id FROM chunk AS c WHERE c.id = ANY (v_chunks) FOR UPDATE SKIP LOCKED);
    DELETE FROM chunk AS c WHERE c.id = ANY (v_chunks) AND NOT EXISTS (SELECT FROM passage AS p WHERE p.chunk = c.id);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END
$function$

== rights to functions
penstock_knowledge.ask_missing_v1(text,bigint,bytea[]): everybody may call it
penstock_knowledge.begin_document_v1(text,bigint,integer): everybody may call it
penstock_knowledge.count_documents_v1(): everybody may call it
penstock_knowledge.describe_index_v1(bigint,text): everybody may call it
penstock_knowledge.drop_index_v1(bigint): owner=X/owner
penstock_knowledge.fold_tallies_v1(integer): everybody may call it
penstock_knowledge.keep_vectors_v1(text,text,bytea[],halfvec[]): everybody may call it
penstock_knowledge.make_index_v1(bigint,text): owner=X/owner
penstock_knowledge.missing_v1(text,bigint,bytea[]): everybody may call it
penstock_knowledge.publish_v1(text,bigint,integer,bigint,bytea[],text[],text[],integer[],integer[],halfvec[],jsonb): everybody may call it
penstock_knowledge.remove_chunks_v1(text,bigint,integer): everybody may call it
penstock_knowledge.remove_documents_v1(text,bigint[]): everybody may call it
penstock_knowledge.search_admits_v1(jsonb,bigint,bigint,text[],jsonb): everybody may call it
penstock_knowledge.search_allowed_v1(text): everybody may call it
penstock_knowledge.search_exact_v1(text,bigint[],bigint[],halfvec,jsonb,integer): everybody may call it
penstock_knowledge.search_highlight_v1(regconfig,text,text): everybody may call it
penstock_knowledge.search_index_v1(text,bigint,halfvec,jsonb,integer): everybody may call it
penstock_knowledge.search_scope_v1(text,bigint[],jsonb,integer): everybody may call it
penstock_knowledge.search_strict_v1(regconfig,text): everybody may call it
penstock_knowledge.search_v1(text,bigint[],real[],text,integer,jsonb,text): owner=X/owner
penstock_knowledge.search_words_v1(text,bigint[],bigint[],bigint,regconfig,text,bigint[],jsonb,integer): everybody may call it
penstock_knowledge.sweep_chunks_v1(integer): everybody may call it
== types
== tables
S base_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
S chunk_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
S document_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
S edition_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
S source_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
r base: persistence p, security f f, partitions none, options none, rights of the owner
r chunk: persistence p, security f f, partitions none, options none, rights of the owner
r document: persistence p, security f f, partitions none, options fillfactor=80, rights of the owner
r draft: persistence p, security f f, partitions none, options none, rights of the owner
r edition: persistence p, security f f, partitions none, options none, rights of the owner
r migration: persistence p, security f f, partitions none, options none, rights of the owner
r object: persistence p, security f f, partitions none, options none, rights of the owner
r passage: persistence p, security f f, partitions none, options none, rights of the owner
r source: persistence p, security f f, partitions none, options none, rights of the owner
r tally: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
r tally_change: persistence p, security f f, partitions none, options none, rights of the owner
r tenant: persistence p, security f f, partitions none, options none, rights of the owner
r usage: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
r vector: persistence p, security f f, partitions none, options none, rights of the owner
v search_place: persistence p, security f f, partitions none, options security_invoker=true, rights of the owner
== views
search_place:  SELECT p.tenant,
    p.edition,
    p.chunk,
    p.document,
    p."position",
    p.page,
    d.source,
    d.path,
    d.title,
    d.url,
    d.tags,
    d.metadata
   FROM penstock_knowledge.passage p
     CROSS JOIN LATERAL ( SELECT a.source,
            a.path,
            a.title,
            a.url,
            a.tags,
            a.metadata
           FROM penstock_knowledge.document a
          WHERE a.id = p.document AND a.tenant = p.tenant AND a.deleted_at IS NULL
         OFFSET 0) d
     CROSS JOIN LATERAL ( SELECT
           FROM penstock_knowledge.source o
          WHERE o.id = d.source AND o.tenant = p.tenant AND o.deleted_at IS NULL
         OFFSET 0) s;
== columns
base   1 id: bigint not null identity a, storage p, statistics usual, options none, rights of the table
base   2 tenant: text not null, storage x, statistics usual, options none, rights of the table
base   3 name: text not null, storage x, statistics usual, options none, rights of the table
base   4 language: text not null default 'english'::text, storage x, statistics usual, options none, rights of the table
base   5 edition: bigint, storage p, statistics usual, options none, rights of the table
base   6 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
base   7 deleted_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
chunk   1 id: bigint not null identity a, storage p, statistics usual, options none, rights of the table
chunk   2 tenant: text not null, storage x, statistics usual, options none, rights of the table
chunk   3 edition: bigint not null, storage p, statistics usual, options none, rights of the table
chunk   4 hash: bytea not null, storage x, statistics usual, options none, rights of the table
chunk   5 tokens: integer not null, storage p, statistics usual, options none, rights of the table
chunk   6 heading: text not null, storage x, statistics usual, options none, rights of the table
chunk   7 text: text not null, storage x, statistics usual, options none, rights of the table
chunk   8 embedding: halfvec not null, storage m, statistics usual, options none, rights of the table
chunk   9 words: tsvector not null, storage x, statistics usual, options none, rights of the table
document   1 id: bigint not null identity a, storage p, statistics usual, options none, rights of the table
document   2 tenant: text not null, storage x, statistics usual, options none, rights of the table
document   3 base: bigint not null, storage p, statistics usual, options none, rights of the table
document   4 source: bigint not null, storage p, statistics usual, options none, rights of the table
document   5 path: text not null, storage x, statistics usual, options none, rights of the table
document   6 version: integer not null default 1, storage p, statistics usual, options none, rights of the table
document   7 published: integer, storage p, statistics usual, options none, rights of the table
document   8 state: text not null default 'pending'::text, storage x, statistics usual, options none, rights of the table
document   9 reason: text, storage x, statistics usual, options none, rights of the table
document  10 error: text, storage x, statistics usual, options none, rights of the table
document  11 media_type: text, storage x, statistics usual, options none, rights of the table
document  12 bytes: bigint not null default 0, storage p, statistics usual, options none, rights of the table
document  13 digest: bytea, storage x, statistics usual, options none, rights of the table
document  14 stored: boolean not null default true, storage p, statistics usual, options none, rights of the table
document  15 url: text, storage x, statistics usual, options none, rights of the table
document  16 parent: bigint, storage p, statistics usual, options none, rights of the table
document  17 attached_to: text, storage x, statistics usual, options none, rights of the table
document  18 depth: integer not null default 0, storage p, statistics usual, options none, rights of the table
document  19 job: text, storage x, statistics usual, options none, rights of the table
document  20 batch: text, storage x, statistics usual, options none, rights of the table
document  21 requested_by: text, storage x, statistics usual, options none, rights of the table
document  22 priority: integer not null default 0, storage p, statistics usual, options none, rights of the table
document  23 kind: text, storage x, statistics usual, options none, rights of the table
document  24 title: text, storage x, statistics usual, options none, rights of the table
document  25 pages: integer, storage p, statistics usual, options none, rights of the table
document  26 chunks: integer not null default 0, storage p, statistics usual, options none, rights of the table
document  27 tokens: bigint not null default 0, storage p, statistics usual, options none, rights of the table
document  28 embedded: integer not null default 0, storage p, statistics usual, options none, rights of the table
document  29 tags: text[] not null default '{}'::text[], storage x, statistics usual, options none, rights of the table
document  30 metadata: jsonb not null default '{}'::jsonb, storage x, statistics usual, options none, rights of the table
document  31 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
document  32 updated_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
document  33 ended_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
document  34 deleted_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
draft   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
draft   2 document: bigint not null, storage p, statistics usual, options none, rights of the table
draft   3 edition: bigint not null, storage p, statistics usual, options none, rights of the table
draft   4 version: integer not null, storage p, statistics usual, options none, rights of the table
draft   5 attempt: integer not null, storage p, statistics usual, options none, rights of the table
draft   6 position: integer not null, storage p, statistics usual, options none, rights of the table
draft   7 hash: bytea not null, storage x, statistics usual, options none, rights of the table
draft   8 tokens: integer not null, storage p, statistics usual, options none, rights of the table
draft   9 heading: text not null, storage x, statistics usual, options none, rights of the table
draft  10 text: text not null, storage x, statistics usual, options none, rights of the table
draft  11 page: integer, storage p, statistics usual, options none, rights of the table
draft  12 error: text, storage x, statistics usual, options none, rights of the table
edition   1 id: bigint not null identity a, storage p, statistics usual, options none, rights of the table
edition   2 tenant: text not null, storage x, statistics usual, options none, rights of the table
edition   3 base: bigint not null, storage p, statistics usual, options none, rights of the table
edition   4 settings: jsonb not null, storage x, statistics usual, options none, rights of the table
edition   5 embedder: text not null, storage x, statistics usual, options none, rights of the table
edition   6 dimensions: integer not null, storage p, statistics usual, options none, rights of the table
edition   7 state: text not null default 'live'::text, storage x, statistics usual, options none, rights of the table
edition   8 batch: text, storage x, statistics usual, options none, rights of the table
edition   9 error: text, storage x, statistics usual, options none, rights of the table
edition  10 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
migration   1 number: integer not null, storage p, statistics usual, options none, rights of the table
migration   2 name: text not null, storage x, statistics usual, options none, rights of the table
migration   3 applied_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
object   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
object   2 digest: bytea not null, storage x, statistics usual, options none, rights of the table
object   3 name: text not null, storage x, statistics usual, options none, rights of the table
object   4 bytes: bigint not null, storage p, statistics usual, options none, rights of the table
object   5 holds: integer not null default 0, storage p, statistics usual, options none, rights of the table
object   6 held_until: timestamp with time zone not null default '-infinity'::timestamp with time zone, storage p, statistics usual, options none, rights of the table
object   7 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
passage   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
passage   2 document: bigint not null, storage p, statistics usual, options none, rights of the table
passage   3 edition: bigint not null, storage p, statistics usual, options none, rights of the table
passage   4 position: integer not null, storage p, statistics usual, options none, rights of the table
passage   5 chunk: bigint not null, storage p, statistics usual, options none, rights of the table
passage   6 page: integer, storage p, statistics usual, options none, rights of the table
search_place   1 tenant: text, storage x, statistics usual, options none, rights of the table
search_place   2 edition: bigint, storage p, statistics usual, options none, rights of the table
search_place   3 chunk: bigint, storage p, statistics usual, options none, rights of the table
search_place   4 document: bigint, storage p, statistics usual, options none, rights of the table
search_place   5 position: integer, storage p, statistics usual, options none, rights of the table
search_place   6 page: integer, storage p, statistics usual, options none, rights of the table
search_place   7 source: bigint, storage p, statistics usual, options none, rights of the table
search_place   8 path: text, storage x, statistics usual, options none, rights of the table
search_place   9 title: text, storage x, statistics usual, options none, rights of the table
search_place  10 url: text, storage x, statistics usual, options none, rights of the table
search_place  11 tags: text[], storage x, statistics usual, options none, rights of the table
search_place  12 metadata: jsonb, storage x, statistics usual, options none, rights of the table
source   1 id: bigint not null identity a, storage p, statistics usual, options none, rights of the table
source   2 tenant: text not null, storage x, statistics usual, options none, rights of the table
source   3 base: bigint not null, storage p, statistics usual, options none, rights of the table
source   4 kind: text not null, storage x, statistics usual, options none, rights of the table
source   5 name: text not null, storage x, statistics usual, options none, rights of the table
source   6 key: text, storage x, statistics usual, options none, rights of the table
source   7 batch: text, storage x, statistics usual, options none, rights of the table
source   8 requested_by: text, storage x, statistics usual, options none, rights of the table
source   9 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
source  10 ended_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
source  11 deleted_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
tally   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
tally   2 base: bigint not null, storage p, statistics usual, options none, rights of the table
tally   3 source: bigint not null, storage p, statistics usual, options none, rights of the table
tally   4 state: text not null, storage x, statistics usual, options none, rights of the table
tally   5 number: bigint not null, storage p, statistics usual, options none, rights of the table
tally_change   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
tally_change   2 base: bigint not null, storage p, statistics usual, options none, rights of the table
tally_change   3 source: bigint not null, storage p, statistics usual, options none, rights of the table
tally_change   4 state: text not null, storage x, statistics usual, options none, rights of the table
tally_change   5 number: bigint not null, storage p, statistics usual, options none, rights of the table
tenant   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
tenant   2 active: boolean not null default true, storage p, statistics usual, options none, rights of the table
tenant   3 settings: jsonb not null default '{}'::jsonb, storage x, statistics usual, options none, rights of the table
tenant   4 deleted_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
tenant   5 created_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
usage   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
usage   2 slot: smallint not null, storage p, statistics usual, options none, rights of the table
usage   3 documents: bigint not null default 0, storage p, statistics usual, options none, rights of the table
usage   4 bytes: bigint not null default 0, storage p, statistics usual, options none, rights of the table
usage   5 chunks: bigint not null default 0, storage p, statistics usual, options none, rights of the table
usage   6 tokens: bigint not null default 0, storage p, statistics usual, options none, rights of the table
vector   1 tenant: text not null, storage x, statistics usual, options none, rights of the table
vector   2 embedder: text not null, storage x, statistics usual, options none, rights of the table
vector   3 hash: bytea not null, storage x, statistics usual, options none, rights of the table
vector   4 embedding: halfvec not null, storage e, statistics usual, options none, rights of the table
vector   5 made_at: timestamp with time zone not null default clock_timestamp(), storage p, statistics usual, options none, rights of the table
== constraints
base base_pkey: PRIMARY KEY (id)
chunk chunk_pkey: PRIMARY KEY (id)
document document_pkey: PRIMARY KEY (id)
document document_state: CHECK ((state = ANY (ARRAY['pending'::text, 'processing'::text, 'completed'::text, 'skipped'::text, 'failed'::text, 'cancelled'::text])))
draft draft_pkey: PRIMARY KEY (document, edition, "position")
edition edition_pkey: PRIMARY KEY (id)
edition edition_state: CHECK ((state = ANY (ARRAY['building'::text, 'live'::text, 'retired'::text])))
migration migration_pkey: PRIMARY KEY (number)
object object_pkey: PRIMARY KEY (tenant, digest)
passage passage_pkey: PRIMARY KEY (document, edition, "position")
source source_kind: CHECK ((kind = ANY (ARRAY['files'::text, 'url'::text, 'text'::text, 'site'::text])))
source source_pkey: PRIMARY KEY (id)
tally tally_pkey: PRIMARY KEY (source, state)
tenant tenant_pkey: PRIMARY KEY (tenant)
usage usage_pkey: PRIMARY KEY (tenant, slot)
vector vector_pkey: PRIMARY KEY (tenant, embedder, hash)
== indexes
CREATE INDEX chunk_words ON penstock_knowledge.chunk USING gin (words) WITH (gin_pending_list_limit='256') {gin_pending_list_limit=256}
CREATE INDEX document_base ON penstock_knowledge.document USING btree (base, created_at)
CREATE INDEX document_batch ON penstock_knowledge.document USING btree (batch) WHERE (state = ANY (ARRAY['pending'::text, 'processing'::text, 'skipped'::text]))
CREATE INDEX document_deleted ON penstock_knowledge.document USING btree (deleted_at) WHERE (deleted_at IS NOT NULL)
CREATE INDEX document_digest ON penstock_knowledge.document USING btree (tenant, digest)
CREATE INDEX document_job ON penstock_knowledge.document USING btree (job) WHERE (state = ANY (ARRAY['pending'::text, 'processing'::text]))
CREATE INDEX document_parent ON penstock_knowledge.document USING btree (parent) WHERE (parent IS NOT NULL)
CREATE INDEX document_source ON penstock_knowledge.document USING btree (source)
CREATE INDEX document_tenant ON penstock_knowledge.document USING btree (tenant, id)
CREATE INDEX draft_hash ON penstock_knowledge.draft USING btree (edition, hash)
CREATE INDEX edition_base ON penstock_knowledge.edition USING btree (base)
CREATE INDEX edition_embedder ON penstock_knowledge.edition USING btree (tenant, embedder)
CREATE INDEX edition_state ON penstock_knowledge.edition USING btree (state) WHERE (state <> 'live'::text)
CREATE INDEX object_created ON penstock_knowledge.object USING btree (created_at)
CREATE INDEX passage_chunk ON penstock_knowledge.passage USING btree (chunk)
CREATE INDEX source_base ON penstock_knowledge.source USING btree (base, id)
CREATE INDEX source_open ON penstock_knowledge.source USING btree (id) WHERE ((ended_at IS NULL) AND (batch IS NOT NULL) AND (deleted_at IS NULL))
CREATE INDEX source_tenant ON penstock_knowledge.source USING btree (tenant, id)
CREATE INDEX tally_base ON penstock_knowledge.tally USING btree (base)
CREATE INDEX tally_change_base ON penstock_knowledge.tally_change USING btree (base)
CREATE INDEX tally_change_source ON penstock_knowledge.tally_change USING btree (source)
CREATE INDEX tally_change_tenant ON penstock_knowledge.tally_change USING btree (tenant)
CREATE INDEX tally_tenant ON penstock_knowledge.tally USING btree (tenant)
CREATE INDEX vector_made ON penstock_knowledge.vector USING btree (made_at)
CREATE UNIQUE INDEX base_name ON penstock_knowledge.base USING btree (tenant, name) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX base_pkey ON penstock_knowledge.base USING btree (id)
CREATE UNIQUE INDEX chunk_hash ON penstock_knowledge.chunk USING btree (edition, hash)
CREATE UNIQUE INDEX chunk_pkey ON penstock_knowledge.chunk USING btree (id)
CREATE UNIQUE INDEX document_path ON penstock_knowledge.document USING btree (source, path) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX document_pkey ON penstock_knowledge.document USING btree (id)
CREATE UNIQUE INDEX draft_pkey ON penstock_knowledge.draft USING btree (document, edition, "position")
CREATE UNIQUE INDEX edition_pkey ON penstock_knowledge.edition USING btree (id)
CREATE UNIQUE INDEX migration_pkey ON penstock_knowledge.migration USING btree (number)
CREATE UNIQUE INDEX object_pkey ON penstock_knowledge.object USING btree (tenant, digest)
CREATE UNIQUE INDEX passage_pkey ON penstock_knowledge.passage USING btree (document, edition, "position")
CREATE UNIQUE INDEX source_key ON penstock_knowledge.source USING btree (base, kind, key) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX source_pkey ON penstock_knowledge.source USING btree (id)
CREATE UNIQUE INDEX tally_pkey ON penstock_knowledge.tally USING btree (source, state)
CREATE UNIQUE INDEX tenant_pkey ON penstock_knowledge.tenant USING btree (tenant)
CREATE UNIQUE INDEX usage_pkey ON penstock_knowledge.usage USING btree (tenant, slot)
CREATE UNIQUE INDEX vector_pkey ON penstock_knowledge.vector USING btree (tenant, embedder, hash)
== triggers
CREATE TRIGGER document_added AFTER INSERT ON penstock_knowledge.document REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION penstock_knowledge.count_documents_v1()
CREATE TRIGGER document_changed AFTER UPDATE ON penstock_knowledge.document REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION penstock_knowledge.count_documents_v1()
CREATE TRIGGER document_removed AFTER DELETE ON penstock_knowledge.document REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION penstock_knowledge.count_documents_v1()
== policies
== sequences
base_id_seq: bigint start 1 min 1 max 9223372036854775807 by 1 cache 1 cycle f
chunk_id_seq: bigint start 1 min 1 max 9223372036854775807 by 1 cache 1 cycle f
document_id_seq: bigint start 1 min 1 max 9223372036854775807 by 1 cache 1 cycle f
edition_id_seq: bigint start 1 min 1 max 9223372036854775807 by 1 cache 1 cycle f
source_id_seq: bigint start 1 min 1 max 9223372036854775807 by 1 cache 1 cycle f
== statistics
== comments
== schema
rights: of the owner
