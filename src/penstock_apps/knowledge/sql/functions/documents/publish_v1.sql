-- Publish a version of a document in place of the one before, in one transaction.
--
-- The answer: `published`, with how many chunks the edition did not have; `stale` if it was superseded or deleted;
-- `retired` if the edition is retired; `quota` if the tenant would have too much; `missing`, with the texts that have no
-- vector, for the caller to roll back and embed them.
CREATE FUNCTION :"schema".publish_v1(
    p_tenant   text,
    p_document bigint,
    p_version  integer,
    p_edition  bigint,
    p_hashes   bytea[],
    p_texts    text[],
    p_headings text[],
    p_tokens   integer[],
    p_pages    integer[],
    p_vectors  halfvec[],    -- of texts that were just embedded, NULL for all others
    p_facts    jsonb,        -- title, kind, pages, embedded, the default quotas, for a rebuild the published version
    OUT answer text,
    OUT added integer,
    OUT missing bytea[]
)
LANGUAGE plpgsql
SET search_path = :"schema", :"vector", pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
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
$$;
