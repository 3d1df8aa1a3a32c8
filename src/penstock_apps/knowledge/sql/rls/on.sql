-- Row level security for knowledge. Run again it changes nothing, or brings what is new under it.
-- A role that is not the owner sees the rows of the tenant that its transaction is set to, and no others.
DO $rls$
DECLARE
    v_tenant text := $p$nullif(current_setting('penstock.tenant', true), '')$p$;
    v        record;
BEGIN
    EXECUTE 'REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, :"app"; GRANT USAGE ON SCHEMA :"schema" TO :"app";'
            'REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM PUBLIC, :"app";'
            'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA :"schema" FROM PUBLIC, :"app"';
    FOR v IN SELECT c.oid, c.relname FROM pg_class AS c
              WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema') AND c.relkind = 'r' LOOP
        EXECUTE format('ALTER TABLE :"schema".%I ENABLE ROW LEVEL SECURITY', v.relname);
        IF v.relname = 'migration' THEN
            CONTINUE;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = v.oid AND p.polname = 'tenant') THEN
            EXECUTE format('CREATE POLICY tenant ON :"schema".%I FOR ALL USING (tenant = %s)', v.relname, v_tenant);
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON :"schema".%I TO :"app"', v.relname);
    END LOOP;
    EXECUTE 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :"schema" TO :"app"';
END
$rls$;
REVOKE UPDATE, INSERT, DELETE ON :"schema".tenant FROM :"app";
REVOKE ALL ON FUNCTION :"schema".index_dimensions_v1(integer) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".fold_tallies_v1(integer) FROM :"app";
