-- The statement that makes the vector index of an edition; NULL if the edition is not searched any more. Each edition has
-- an index of its own, so that a search does not read the vectors of others. It is built when its vectors are there: that
-- costs a tenth of adding them one by one.
CREATE FUNCTION :"schema".describe_index_v1(p_edition bigint, p_how text) RETURNS text
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT format(
        'CREATE INDEX %1$s chunk_edition_%2$s ON :"schema".chunk'
        ' USING hnsw ((embedding:::"vector".halfvec(%3$s)) :"vector".halfvec_cosine_ops) WITH (m = 12, ef_construction = 64)'
        ' WHERE edition = %2$s', p_how, e.id, e.dimensions)
      FROM edition AS e JOIN base AS b ON b.id = e.base AND b.deleted_at IS NULL
     WHERE e.id = p_edition AND e.state <> 'retired'
$$;
