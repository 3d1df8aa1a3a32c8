-- Check the workflow of new jobs: raise an error if it does not exist or belongs to another tenant.
-- It cannot be swept before this transaction ends.
CREATE FUNCTION :"schema".join_workflow_v1(p_workflow bigint, p_tenants text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
DECLARE
    v_tenant text;
    v_other  text;
BEGIN
    SELECT w.tenant INTO v_tenant FROM workflow AS w WHERE w.id = p_workflow FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no workflow %.', p_workflow
            USING ERRCODE = 'PS016', DETAIL = json_build_array(p_workflow::text)::text;
    END IF;
    -- Jobs that wait for each other read each other's results, so they must belong to one tenant.
    SELECT coalesce(t.tenant, '') INTO v_other FROM unnest(coalesce(p_tenants, ARRAY[''])) AS t (tenant)
     WHERE coalesce(t.tenant, '') <> v_tenant LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'A job of tenant "%" cannot be in a workflow of tenant "%".', v_other, v_tenant
            USING ERRCODE = 'PS007', DETAIL = json_build_array(v_other, v_tenant)::text,
                  HINT = 'All jobs of a workflow belong to its tenant.';
    END IF;
END
$$;
