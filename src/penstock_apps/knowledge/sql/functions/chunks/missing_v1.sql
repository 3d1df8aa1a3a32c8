-- The texts, by hash, that have no vector yet from this edition's embedder, for this tenant.
CREATE FUNCTION :"schema".missing_v1(p_tenant text, p_edition bigint, p_hashes bytea[]) RETURNS SETOF bytea
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
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
$$;
