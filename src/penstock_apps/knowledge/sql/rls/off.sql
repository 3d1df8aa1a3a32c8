-- Switch row level security off: tables and functions are as the migrations make them again.
DO $rls$
DECLARE
    v_schema oid := (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema');
    v        record;
BEGIN
    FOR v IN SELECT c.relname, p.polname FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
              WHERE c.relnamespace = v_schema LOOP
        EXECUTE format('DROP POLICY %I ON :"schema".%I', v.polname, v.relname);
    END LOOP;
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = v_schema AND c.relkind = 'r' AND c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE :"schema".%I DISABLE ROW LEVEL SECURITY', v.relname);
    END LOOP;
    FOR v IN SELECT r.rolname FROM pg_roles AS r WHERE r.rolname IN (:'worker', :'app') LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA :"schema" FROM %1$I; REVOKE ALL ON ALL TABLES IN SCHEMA :"schema" FROM %1$I;'
                       'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA :"schema" FROM %1$I', v.rolname);
    END LOOP;
    EXECUTE 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA :"schema" TO PUBLIC';
END
$rls$;
