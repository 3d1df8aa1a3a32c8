-- Row level security for knowledge. Running it again changes nothing but tables and functions that are new.
--   app     sees the rows of the tenant that its transaction is set to, and no others;
--   worker  works for all tenants, and cleans up after them.
DO $rls$
DECLARE
    v_tenant text := $p$nullif(current_setting('penstock.tenant', true), '')$p$;
    v        record;
BEGIN
    EXECUTE 'REVOKE ALL ON SCHEMA :"schema" FROM PUBLIC, :"app", :"worker";'
            'GRANT USAGE ON SCHEMA :"schema" TO :"app", :"worker";'
            'REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM PUBLIC, :"app", :"worker";'
            'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA :"schema" FROM PUBLIC, :"app", :"worker"';
    FOR v IN SELECT c.oid, c.relname FROM pg_class AS c
              WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema') AND c.relkind = 'r' LOOP
        IF NOT (SELECT c.relrowsecurity FROM pg_class AS c WHERE c.oid = v.oid) THEN
            EXECUTE format('ALTER TABLE :"schema".%I ENABLE ROW LEVEL SECURITY', v.relname);
        END IF;
        IF v.relname = 'migration' THEN
            IF NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = v.oid AND p.polname = 'everybody') THEN
                EXECUTE 'CREATE POLICY everybody ON :"schema".migration FOR SELECT USING (true)';
            END IF;
            EXECUTE 'GRANT SELECT ON :"schema".migration TO :"app", :"worker"';
            CONTINUE;
        END IF;
        IF NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = v.oid AND p.polname = 'tenant') THEN
            EXECUTE format('CREATE POLICY tenant ON :"schema".%I FOR ALL USING (tenant = %s)', v.relname, v_tenant);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_policy AS p WHERE p.polrelid = v.oid AND p.polname = 'worker') THEN
            EXECUTE format('CREATE POLICY worker ON :"schema".%I FOR ALL TO :"worker" USING (true)', v.relname);
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON :"schema".%I TO :"app", :"worker"', v.relname);
    END LOOP;
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema') AND c.relkind = 'v' LOOP
        EXECUTE format('GRANT SELECT ON :"schema".%I TO :"app", :"worker"', v.relname);
    END LOOP;
    EXECUTE 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :"schema" TO :"app", :"worker"';
END
$rls$;
-- Only administrators change the settings of tenants.
REVOKE UPDATE, INSERT, DELETE ON :"schema".tenant FROM :"app";
-- These functions are about all tenants, or set the transaction to any of them.
REVOKE ALL ON FUNCTION :"schema".begin_document_v1(text, bigint, integer) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".ask_missing_v1(text, bigint, bytea[]) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".make_index_v1(bigint, text) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".drop_index_v1(bigint) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".fold_tallies_v1(integer) FROM :"app";
REVOKE ALL ON FUNCTION :"schema".sweep_chunks_v1(integer) FROM :"app";
