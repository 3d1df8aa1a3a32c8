-- Turn row level security on for a whole schema. Running it again changes nothing, or includes new tables and functions.
--
-- Everything that is not named here is closed: every table gets row level security, and PUBLIC may call no function.
-- Then the two roles get what they need:
--   worker  calls the functions of workers, which run with the owner's rights; it reads no table of jobs;
--   app     works on rows of the tenant of its transaction (SET LOCAL penstock.tenant).

-- Return whether a job, live or final, belongs to the tenant of this transaction, for policies of tables that have only
-- the job's id. The settings force plans for a big table, whatever its size at planning time.
CREATE OR REPLACE FUNCTION :"schema".owns_job_v1(p_job bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    v_tenant text := nullif(current_setting('penstock.tenant', true), '');
    v_owner  text;
BEGIN
    IF v_tenant IS NULL THEN
        RETURN false;
    END IF;
    SELECT j.tenant INTO v_owner FROM job AS j WHERE j.id = p_job;
    IF NOT FOUND THEN
        -- Not in one statement with the live jobs: it would lock every partition of the history.
        SELECT a.tenant INTO v_owner FROM find_jobs_v1(ARRAY[p_job]) AS a;
    END IF;
    RETURN coalesce(v_owner = v_tenant, false);
END
$$;

-- Return whether a batch has no tenant: jobs of any tenant may be in it, and each tenant sees only its own there.
CREATE OR REPLACE FUNCTION :"schema".is_shared_batch_v1(p_batch bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = :"schema", pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM batch AS b WHERE b.id = p_batch AND b.tenant = '');
END
$$;

DO $rls$
DECLARE
    v_schema  oid := (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = :'schema');
    -- An empty tenant becomes NULL, which equals nothing: without a tenant, no policy lets any row through.
    v_tenant  text := $p$nullif(current_setting('penstock.tenant', true), '')$p$;
    v_own     text := format('tenant = %s', v_tenant);
    v_batch   text := format('EXISTS (SELECT FROM %I.batch AS b WHERE b.id = batch_delta.batch)', :'schema');
    v_flow    text := format('EXISTS (SELECT FROM %I.workflow AS w WHERE w.id = dependency.workflow)', :'schema');
    -- A job is in a batch of its tenant or in one without a tenant. The former is checked without a call for each row.
    v_joins   text := v_own || format(' AND (batch IS NULL OR EXISTS (SELECT FROM %1$I.batch AS b WHERE b.id = %%table.batch)'
        ' OR %1$I.is_shared_batch_v1(batch)) AND (workflow IS NULL OR ', :'schema') || replace(v_flow, '= dependency.', '= %table.') || ')';
    v_both    text := quote_ident(:'worker') || ', ' || quote_ident(:'app');
    v_app     text := quote_ident(:'app');
    v         record;
BEGIN
    EXECUTE format('REVOKE ALL ON SCHEMA %1$I FROM PUBLIC, %2$s; GRANT USAGE ON SCHEMA %1$I TO %2$s;'
                   'REVOKE ALL ON ALL TABLES IN SCHEMA %1$I FROM PUBLIC, %2$s;'
                   'REVOKE ALL ON ALL SEQUENCES IN SCHEMA %1$I FROM PUBLIC, %2$s;'
                   'REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %1$I FROM PUBLIC, %2$s;',
                   :'schema', v_both);

    -- Partitions too: access through the parent is checked there, direct access is closed.
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p') AND NOT c.relrowsecurity LOOP
        EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY', :'schema', v.relname);
    END LOOP;
    -- A view reads with its owner's rights, unless security_invoker makes it read with the caller's.
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = v_schema AND c.relkind = 'v'
                AND NOT coalesce(c.reloptions && ARRAY['security_invoker=true'], false) LOOP
        EXECUTE format('ALTER VIEW %I.%I SET (security_invoker = true)', :'schema', v.relname);
    END LOOP;

    -- What the roles may do with each table (or some of its columns), with which rows, and which rows they may write.
    -- The definition of a policy is stored as its comment. An unchanged policy is left alone, so that nobody waits for
    -- the lock of its table.
    FOR v IN SELECT c.relname AS name, r.rights, coalesce(r.roles, v_app) AS roles, r.command, r.rows, n.new_rows,
                    (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a
                      WHERE a.attrelid = c.oid AND a.attname = ANY (r.columns)) AS columns,
                    p.polname IS NOT NULL AS is_there, obj_description(p.oid, 'pg_policy') AS made_from,
                    concat_ws(' ', r.command, coalesce(r.roles, v_app), r.rows, 'CHECK ' || n.new_rows) AS made_now
      FROM pg_class AS c
      LEFT JOIN pg_policy AS p ON p.polrelid = c.oid AND p.polname = 'tenant'
      LEFT JOIN (VALUES
        ('job',            'SELECT, INSERT, UPDATE, DELETE', NULL::text[], 'ALL', v_own, NULL::text),
        ('job_history',    'SELECT, INSERT, UPDATE, DELETE', NULL, 'ALL', v_own, NULL),
        ('job_all',        'SELECT', NULL, NULL, NULL, NULL),
        ('unique_claim',   'SELECT, INSERT, UPDATE, DELETE', NULL, 'ALL', v_own, NULL),
        ('progress',       'SELECT, DELETE', NULL, 'ALL', format('%I.owns_job_v1(job)', :'schema'), NULL),
        ('step',           'SELECT, DELETE', NULL, 'ALL', format('%I.owns_job_v1(job)', :'schema'), NULL),
        ('event',          'SELECT, INSERT', NULL, 'ALL', v_own, NULL),
        ('event_wait',     'SELECT, UPDATE, DELETE', NULL, 'ALL', v_own, NULL),
        ('signal',         'INSERT', NULL, 'INSERT', format('%I.owns_job_v1(job)', :'schema'), NULL),
        -- An app may read the name of the worker that runs its job.
        ('lease',          'SELECT', '{id,worker,expires_at}', 'SELECT', format(
            'EXISTS (SELECT FROM %I.job AS j WHERE j.state = ''running'' AND j.lease = lease.id)', :'schema'), NULL),
        -- Names of queues are no secret. Names of lanes are, since they may be tenants.
        ('queue',          'SELECT', '{name,paused_at,fair,lane_key}', 'SELECT', v_tenant || ' IS NOT NULL', NULL),
        ('setting_version', 'SELECT', '{places}', 'SELECT', v_tenant || ' IS NOT NULL', NULL),
        ('limit_setting',  'SELECT', '{key}', 'SELECT', v_tenant || $p$ IS NOT NULL AND starts_with(key, 'task:')$p$, NULL),
        ('tenant_setting', 'SELECT', NULL, 'SELECT', v_own, NULL),
        ('plan',           'SELECT', NULL, 'SELECT', format(
            'name = (SELECT t.plan FROM %I.tenant_setting AS t WHERE t.tenant = %s)', :'schema', v_tenant), NULL),
        ('retention',      'SELECT', NULL, 'SELECT', format('%1$s IS NOT NULL AND tenant IN ('''', %1$s)', v_tenant), NULL),
        ('migration',      'SELECT', NULL, 'SELECT', 'true', v_both),
        ('batch',          'SELECT, INSERT, UPDATE', NULL, 'ALL', v_own, NULL),
        ('batch_delta',    'SELECT, INSERT', NULL, 'ALL', v_batch, NULL),
        ('workflow',       'SELECT, INSERT, UPDATE', NULL, 'ALL', v_own, NULL),
        ('dependency',     'SELECT, INSERT, UPDATE, DELETE', NULL, 'ALL', v_flow, NULL),
        -- No call of an app needs these yet. If somebody grants a right to one, it is limited to a tenant's rows.
        ('schedule',       NULL, NULL, 'ALL', v_own, NULL),
        ('schedule_fire',  NULL, NULL, 'ALL', format(
            'EXISTS (SELECT FROM %I.schedule AS s WHERE s.name = schedule_fire.schedule)', :'schema'), NULL),
        ('step_cache',     NULL, NULL, 'ALL', v_own, NULL),
        ('audit',          NULL, NULL, 'SELECT', v_own, NULL)
        -- Only the owner reads lane_setting, "grant", bucket, leader, api_key, person, login and login_failure: without a
        -- policy, others see no row.
      ) AS r (name, rights, columns, command, rows, roles) ON r.name = c.relname
      LEFT JOIN (VALUES
        ('job', replace(v_joins, '%table', 'job')), ('job_history', replace(v_joins, '%table', 'job_history')),
        -- Also deltas of a batch without a tenant that has jobs of ours.
        ('batch_delta', v_batch || format(
            ' OR EXISTS (SELECT FROM %1$I.job AS j WHERE j.batch = batch_delta.batch)'
            ' OR EXISTS (SELECT FROM %1$I.job_history AS h WHERE h.batch = batch_delta.batch)', :'schema'))
      ) AS n (name, new_rows) ON n.name = c.relname
     WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p', 'v')
    LOOP
        IF v.rights IS NOT NULL THEN
            EXECUTE format('GRANT %s%s ON %I.%I TO %s', v.rights, ' (' || v.columns || ')', :'schema', v.name, v.roles);
        END IF;
        CONTINUE WHEN v.is_there AND v.made_from = v.made_now;
        IF v.is_there THEN
            EXECUTE format('DROP POLICY tenant ON %I.%I', :'schema', v.name);
        END IF;
        IF v.rows IS NOT NULL THEN
            EXECUTE format('CREATE POLICY tenant ON %I.%I FOR %s TO %s %s (%s)%s', :'schema', v.name, v.command, v.roles,
                           CASE v.command WHEN 'INSERT' THEN 'WITH CHECK' ELSE 'USING' END, v.rows,
                           ' WITH CHECK (' || v.new_rows || ')');
            EXECUTE format('COMMENT ON POLICY tenant ON %I.%I IS %L', :'schema', v.name, v.made_now);
        END IF;
    END LOOP;
    FOR v IN SELECT c.relname FROM pg_class AS c
              WHERE c.relnamespace = v_schema AND c.relkind = 'S' AND c.relname IN ('job_id_seq', 'event_id_seq') LOOP
        EXECUTE format('GRANT USAGE ON SEQUENCE %I.%I TO %I', :'schema', v.relname, :'app');
    END LOOP;

    -- The functions, by name and in all versions. Those of workers, listed in sql/rights.py, run as the owner; those of
    -- apps run as the caller, under the policies. The others are called by these, or only by the owner.
    FOR v IN SELECT p.oid::regprocedure AS signature, f.role, p.prosecdef AS runs_as_owner,
                    coalesce(f.role = :'worker' OR f.verb IN ('owns_job', 'is_shared_batch', 'write_audit'), false) AS should
               FROM pg_proc AS p
               LEFT JOIN (SELECT :'worker' AS role, unnest(string_to_array(:'worker_functions', ' ')) AS verb
                     UNION ALL
                     SELECT :'app', unnest(ARRAY[
                         'enqueue', 'claim_idempotency_keys', 'claim_unique_keys', 'choose_unique', 'apply_unique',
                         'replace_jobs', 'join_batch', 'join_workflow', 'add_dependencies', 'refuse_cycle',
                         'find_cycle', 'resolve_steps', 'extend_workflow', 'cancel_workflow', 'retry_workflow',
                         'assign_lanes', 'lane', 'lane_key', 'notify_enqueued', 'notify_ready', 'notify_due',
                         'commit_durably', 'cancel', 'finish_jobs', 'release_unique_keys', 'release_dependents',
                         'dependents_to_cancel', 'retry', 'restore_dependencies', 'unblock', 'delete', 'find_jobs',
                         'match_jobs', 'workflow_jobs', 'history_dates', 'list_partitions', 'expires_on',
                         'only_failed', 'redrive', 'purge', 'close_batch', 'cancel_batch', 'owns_job',
                         'is_shared_batch', 'write_audit', 'send_event', 'wake_waiters', 'wake_jobs', 'event_lock_key'])) AS f
                 ON f.verb = regexp_replace(p.proname, '_v[0-9]+$', '')
              WHERE p.pronamespace = v_schema LOOP
        IF v.role IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v.signature, v.role);
        END IF;
        IF v.runs_as_owner <> v.should THEN
            EXECUTE format('ALTER FUNCTION %s SECURITY %s', v.signature,
                           CASE WHEN v.should THEN 'DEFINER' ELSE 'INVOKER' END);
        END IF;
    END LOOP;
END
$rls$;
