-- Turn row level security off: tables and functions are as after the migrations. The roles stay, without any right here,
-- because another database of this server may use them.
DO $rls$
DECLARE
    v_schema oid := (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema');
    v_role   text;
    v        record;
BEGIN
    FOR v IN SELECT c.relname, p.polname FROM pg_policy AS p JOIN pg_class AS c ON c.oid = p.polrelid
              WHERE c.relnamespace = v_schema AND p.polname = 'tenant' LOOP
        EXECUTE format('DROP POLICY %I ON %I.%I', v.polname, :'schema', v.relname);
    END LOOP;
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p') AND c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE %I.%I DISABLE ROW LEVEL SECURITY', :'schema', v.relname);
    END LOOP;
    FOR v IN SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = v_schema AND c.relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %I.%I RESET (security_invoker)', :'schema', v.relname);
    END LOOP;
    EXECUTE format('DROP FUNCTION IF EXISTS %1$I.owns_job_v1, %1$I.is_shared_batch_v1', :'schema');
    FOR v IN SELECT p.oid::regprocedure AS signature FROM pg_proc AS p
              WHERE p.pronamespace = v_schema AND p.prosecdef LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER', v.signature);
    END LOOP;
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %I TO PUBLIC', :'schema');
    FOR v_role IN SELECT r.rolname FROM pg_roles AS r WHERE r.rolname IN (:'worker', :'app') LOOP
        EXECUTE format('REVOKE ALL ON SCHEMA %1$I FROM %2$I; REVOKE ALL ON ALL TABLES IN SCHEMA %1$I FROM %2$I;'
                       'REVOKE ALL ON ALL SEQUENCES IN SCHEMA %1$I FROM %2$I;'
                       'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %1$I FROM %2$I', :'schema', v_role);
    END LOOP;
END
$rls$;
