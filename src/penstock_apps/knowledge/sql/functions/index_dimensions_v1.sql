-- See to an index for vectors of so many dimensions; those of all tenants and models that have as many share it.
CREATE FUNCTION :"schema".index_dimensions_v1(p_dimensions integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", :"vector", pg_temp
AS $$
BEGIN
    IF p_dimensions NOT BETWEEN 1 AND 4000 THEN
        RAISE EXCEPTION 'Vectors of % dimensions cannot be indexed: at most 4000.', p_dimensions USING ERRCODE = 'PK001';
    END IF;
    EXECUTE format(
        'CREATE INDEX IF NOT EXISTS chunk_embedding_%1$s ON :"schema".chunk'
        ' USING hnsw ((embedding::halfvec(%1$s)) halfvec_cosine_ops) WITH (m = 12, ef_construction = 40)'
        ' WHERE vector_dims(embedding) = %1$s', p_dimensions);
END
$$;
