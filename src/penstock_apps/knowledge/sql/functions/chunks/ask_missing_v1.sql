-- The texts, by hash, that have no vector yet, and whether the tenant is active, as nothing may be paid for one that is
-- not. For workers: a transaction of one statement.
CREATE FUNCTION :"schema".ask_missing_v1(
    p_tenant text, p_edition bigint, p_hashes bytea[], OUT missing bytea[], OUT active boolean)
LANGUAGE plpgsql
SET search_path = :"schema", pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM set_config('penstock.tenant', p_tenant, true);
    SELECT coalesce(array_agg(m.hash), '{}') INTO missing FROM missing_v1(p_tenant, p_edition, p_hashes) AS m (hash);
    active := NOT EXISTS (SELECT FROM tenant AS t WHERE t.tenant = p_tenant AND (NOT t.active OR t.deleted_at IS NOT NULL));
END
$$;
