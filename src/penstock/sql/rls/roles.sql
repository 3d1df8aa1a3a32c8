-- Create the two roles to which row level security applies. Roles belong to the whole server, so they may exist already.
DO $rls$
DECLARE
    v_owner   oid := (SELECT n.nspowner FROM pg_namespace AS n WHERE n.nspname = :'schema');
    v_role    text;
    v_missing text := '';
BEGIN
    FOREACH v_role IN ARRAY ARRAY[:'worker', :'app'] LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pg_roles AS r WHERE r.rolname = v_role) THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
            END IF;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN  -- another migration, of another database, created it
                NULL;
            WHEN insufficient_privilege THEN
                v_missing := v_missing || format('CREATE ROLE %I NOLOGIN; ', v_role);
        END;
        -- With one of these attributes it would see every tenant's rows, whatever the policies say.
        IF EXISTS (SELECT FROM pg_roles AS r
                    WHERE r.rolname = v_role
                      AND (r.rolsuper OR r.rolbypassrls OR pg_has_role(r.oid, v_owner, 'MEMBER'))) THEN
            RAISE EXCEPTION 'The role % is a superuser, has BYPASSRLS or is a member of %: row level security would not hold for it.',
                quote_ident(v_role), v_owner::regrole
                USING ERRCODE = 'PS009', DETAIL = format('ALTER ROLE %I NOSUPERUSER NOBYPASSRLS; REVOKE %s FROM %I;',
                    v_role, v_owner::regrole, v_role);
        END IF;
    END LOOP;
    IF v_missing <> '' THEN
        RAISE EXCEPTION 'The role % may not create roles.', quote_ident(current_user)
            USING ERRCODE = 'PS009', DETAIL = rtrim(v_missing);
    END IF;
    -- Row level security does not apply to the owner of the tables, who takes the role of apps for calls of one tenant.
    BEGIN
        IF current_setting('server_version_num')::integer < 160000 THEN
            IF NOT pg_has_role(v_owner, :'app', 'MEMBER') THEN
                EXECUTE format('GRANT %I TO %s', :'app', v_owner::regrole);
            END IF;
        ELSIF NOT pg_has_role(v_owner, :'app', 'SET') THEN
            EXECUTE format('GRANT %I TO %s WITH INHERIT FALSE, SET TRUE', :'app', v_owner::regrole);
        END IF;
    EXCEPTION WHEN insufficient_privilege THEN
        NULL;  -- Calls that need it fail with an error that says what an administrator has to run.
    END;
END
$rls$;
