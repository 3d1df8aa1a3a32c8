== functions
  CREATE OR REPLACE FUNCTION penstock.await_event_v1(p_job bigint, p_token uuid, p_step text, p_name text, p_after bigint, p_timeout double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.claim_v1(p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[], p_marks timestamp with time zone[], p_mark_ids bigint[], p_limit integer, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.claim_v2(p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[], p_marks timestamp with time zone[], p_mark_ids bigint[], p_takes integer[], p_limit integer, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.claim_v3(p_lease bigint, p_queue text, p_lanes text[], p_priorities smallint[], p_marks timestamp with time zone[], p_mark_ids bigint[], p_takes integer[], p_limit integer, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.close_bucket_v1(p_key text, p_seconds double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.close_lease_v1(p_lease bigint, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.close_lease_v2(p_lease bigint, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.completed_v1(p_ids bigint[], p_tokens uuid[])
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.correct_v1(p_key text, p_units double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.drop_partition_v1(p_name text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.due_v1(p_limit integer DEFAULT 100, p_except text[] DEFAULT '{}'::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.elect_v1(p_role text, p_lease bigint, p_ttl double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.ensure_partitions_v1(p_ahead integer DEFAULT 7, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also date[] DEFAULT '{}'::date[])
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.ensure_partitions_v2(p_ahead integer DEFAULT 7, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_also date[] DEFAULT '{}'::date[])
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.expire_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.extend_from_v1(p_job bigint, p_token uuid, p_call integer, p_steps jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.fence_v1(p_id bigint, p_token uuid, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.fire_v1(p_fires jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.fold_v1(p_limit integer DEFAULT 100, p_after bigint DEFAULT 0, p_pace double precision DEFAULT 0, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.grant_v1(p_lease bigint, p_keys text[], p_wants integer[], p_uses integer[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.heartbeat_v1(p_lease bigint, p_ttl double precision, p_info jsonb DEFAULT NULL::jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.is_paused_v1(p_queue text)
-  STABLE
+  STABLE SECURITY DEFINER
+ CREATE OR REPLACE FUNCTION penstock.joins_v1(p_batch bigint)
+  RETURNS boolean
+  LANGUAGE plpgsql
+  STABLE SECURITY DEFINER
+  SET search_path TO 'penstock', 'pg_temp'
+  SET plan_cache_mode TO 'force_generic_plan'
+  SET enable_seqscan TO 'off'
+  SET enable_bitmapscan TO 'off'
+ AS $function$
+ BEGIN
+     RETURN EXISTS (SELECT FROM batch AS b WHERE b.id = p_batch AND b.tenant = '');
+ END
+ $function$
  CREATE OR REPLACE FUNCTION penstock.lose_unwritten_v1(p_ids bigint[], p_tokens uuid[], p_error text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.mark_begun_v1(p_ids bigint[], p_tokens uuid[])
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.move_v1(p_ids bigint[], p_tokens uuid[], p_lanes text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.note_v1(p_by text, p_action text, p_tenant text, p_target text, p_detail jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.open_lease_v1(p_worker text, p_ttl double precision, p_info jsonb DEFAULT '{}'::jsonb, p_kind text DEFAULT 'worker'::text, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
+ CREATE OR REPLACE FUNCTION penstock.owns_v1(p_job bigint)
+  RETURNS boolean
+  LANGUAGE plpgsql
+  STABLE SECURITY DEFINER
+  SET search_path TO 'penstock', 'pg_temp'
+  SET plan_cache_mode TO 'force_generic_plan'
+  SET enable_seqscan TO 'off'
+  SET enable_bitmapscan TO 'off'
+ AS $function$
+ DECLARE
+     v_tenant text := nullif(current_setting('penstock.tenant', true), '');
+     v_owner  text;
+ BEGIN
+     IF v_tenant IS NULL THEN
+         RETURN false;
+     END IF;
+     SELECT j.tenant INTO v_owner FROM job AS j WHERE j.id = p_job;
+     IF NOT FOUND THEN
+         -- Not in one statement with the live jobs: it would lock every partition of the history.
+         SELECT a.tenant INTO v_owner FROM find_jobs_v1(ARRAY[p_job]) AS a;
+     END IF;
+     RETURN coalesce(v_owner = v_tenant, false);
+ END
+ $function$
  CREATE OR REPLACE FUNCTION penstock.progress_v1(p_ids bigint[], p_tokens uuid[], p_done double precision[], p_totals double precision[], p_messages text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.promote_v1(p_mark timestamp with time zone DEFAULT '-infinity'::timestamp with time zone, p_limit integer DEFAULT 2000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.read_parents_v1(p_job bigint, p_token uuid)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.read_steps_v1(p_job bigint, p_token uuid)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.recall_step_v1(p_job bigint, p_token uuid, p_name text, p_key bytea, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.release_v1(p_lease bigint, p_keep bigint[] DEFAULT '{}'::bigint[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.rescue_overtime_v1(p_grace double precision DEFAULT 60, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.rescue_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.reserve_v1(p_key text, p_units double precision, p_share double precision DEFAULT 1, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.rules_v1(p_queues text[])
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.rules_version_v1()
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.save_step_v1(p_job bigint, p_token uuid, p_kind text, p_name text, p_result jsonb, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.scan_lines_v1(p_queue text, p_limit integer DEFAULT 1000)
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.scan_lines_v2(p_queue text, p_from text DEFAULT ''::text, p_limit integer DEFAULT 1000)
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.settle_v1(p_ids bigint[], p_tokens uuid[], p_states text[] DEFAULT NULL::text[], p_reasons text[] DEFAULT NULL::text[], p_delays double precision[] DEFAULT NULL::double precision[], p_failures smallint[] DEFAULT NULL::smallint[], p_stuck boolean[] DEFAULT NULL::boolean[], p_errors text[] DEFAULT NULL::text[], p_results text[] DEFAULT NULL::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.settle_v2(p_ids bigint[], p_tokens uuid[], p_states text[] DEFAULT NULL::text[], p_reasons text[] DEFAULT NULL::text[], p_delays double precision[] DEFAULT NULL::double precision[], p_failures smallint[] DEFAULT NULL::smallint[], p_stuck boolean[] DEFAULT NULL::boolean[], p_errors text[] DEFAULT NULL::text[], p_results text[] DEFAULT NULL::text[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_options jsonb DEFAULT NULL::jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.share_step_v1(p_job bigint, p_token uuid, p_name text, p_result jsonb, p_key bytea, p_ttl double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sleep_v1(p_job bigint, p_token uuid, p_name text, p_until timestamp with time zone, p_seconds double precision, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_cache_v1(p_bytes bigint, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone, p_excess bigint DEFAULT NULL::bigint)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_events_v1(p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_fires_v1(p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_steps_v1(p_after bigint DEFAULT 0, p_limit integer DEFAULT 1000)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_v1(p_limit integer DEFAULT 5000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_v2(p_limit integer DEFAULT 5000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sweep_v3(p_limit integer DEFAULT 5000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.sync_schedules_v1(p_declared jsonb)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.take_v1(p_keys text[], p_wants integer[], p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.unserved_v1(p_seconds double precision, p_limit integer DEFAULT 1000, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
-  STABLE
+  STABLE SECURITY DEFINER
  CREATE OR REPLACE FUNCTION penstock.wake_waits_v1(p_limit integer DEFAULT 1000, p_after bigint DEFAULT 0, p_now timestamp with time zone DEFAULT NULL::timestamp with time zone)
+  SECURITY DEFINER
== rights to functions
- penstock.announce_v1(text[],text[],smallint[],double precision[],timestamp with time zone[],integer,timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.announce_v1(text[],text[],smallint[],double precision[],timestamp with time zone[],integer,timestamp with time zone,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.announce_v2(text[],text[],smallint[],double precision[],timestamp with time zone[],integer,timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.announce_v2(text[],text[],smallint[],double precision[],timestamp with time zone[],integer,timestamp with time zone,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.await_event_v1(bigint,uuid,text,text,bigint,double precision,timestamp with time zone): everybody may call it
+ penstock.await_event_v1(bigint,uuid,text,text,bigint,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.be_unique_v1(text[],text[],text[],bigint[],boolean[],timestamp with time zone): everybody may call it
+ penstock.be_unique_v1(text[],text[],text[],bigint[],boolean[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.call_back_v1(bigint,text,text,jsonb,timestamp with time zone): everybody may call it
+ penstock.call_back_v1(bigint,text,text,jsonb,timestamp with time zone): owner=X/owner
- penstock.cancel_batch_v1(bigint,bigint,integer,text,timestamp with time zone): everybody may call it
+ penstock.cancel_batch_v1(bigint,bigint,integer,text,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.cancel_v1(bigint[],text,timestamp with time zone): everybody may call it
+ penstock.cancel_v1(bigint[],text,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.cancel_workflow_v1(bigint,text,timestamp with time zone): everybody may call it
+ penstock.cancel_workflow_v1(bigint,text,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.choose_unique_v1(bigint[],text[],text[],text[]): everybody may call it
+ penstock.choose_unique_v1(bigint[],text[],text[],text[]): owner=X/owner penstock_app=X/owner
- penstock.claim_v1(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer,timestamp with time zone,jsonb): everybody may call it
+ penstock.claim_v1(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer,timestamp with time zone,jsonb): owner=X/owner penstock_worker=X/owner
- penstock.claim_v2(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer[],integer,timestamp with time zone,jsonb): everybody may call it
+ penstock.claim_v2(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer[],integer,timestamp with time zone,jsonb): owner=X/owner penstock_worker=X/owner
- penstock.claim_v3(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer[],integer,timestamp with time zone,jsonb): everybody may call it
+ penstock.claim_v3(bigint,text,text[],smallint[],timestamp with time zone[],bigint[],integer[],integer,timestamp with time zone,jsonb): owner=X/owner penstock_worker=X/owner
- penstock.close_batch_v1(bigint[],boolean,timestamp with time zone): everybody may call it
+ penstock.close_batch_v1(bigint[],boolean,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.close_bucket_v1(text,double precision,timestamp with time zone): everybody may call it
+ penstock.close_bucket_v1(text,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.close_lease_v1(bigint,timestamp with time zone): everybody may call it
+ penstock.close_lease_v1(bigint,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.close_lease_v2(bigint,timestamp with time zone): everybody may call it
+ penstock.close_lease_v2(bigint,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.completed_v1(bigint[],uuid[]): everybody may call it
+ penstock.completed_v1(bigint[],uuid[]): owner=X/owner penstock_worker=X/owner
- penstock.correct_v1(text,double precision,timestamp with time zone): everybody may call it
+ penstock.correct_v1(text,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.cover_retention_v1(): everybody may call it
+ penstock.cover_retention_v1(): owner=X/owner
- penstock.dead_v1(bigint[]): everybody may call it
+ penstock.dead_v1(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.delete_v1(bigint[]): everybody may call it
+ penstock.delete_v1(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.delete_v2(bigint[]): everybody may call it
+ penstock.delete_v2(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.delete_v3(bigint[],timestamp with time zone): everybody may call it
+ penstock.delete_v3(bigint[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.depend_v1(bigint[],boolean[],text[],text[],bigint): everybody may call it
+ penstock.depend_v1(bigint[],boolean[],text[],text[],bigint): owner=X/owner penstock_app=X/owner
- penstock.doom_v1(bigint[],bigint[]): everybody may call it
+ penstock.doom_v1(bigint[],bigint[]): owner=X/owner penstock_app=X/owner
- penstock.drop_partition_v1(text,timestamp with time zone): everybody may call it
+ penstock.drop_partition_v1(text,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.due_v1(integer,text[],timestamp with time zone): everybody may call it
+ penstock.due_v1(integer,text[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.elect_v1(text,bigint,double precision,timestamp with time zone): everybody may call it
+ penstock.elect_v1(text,bigint,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.enqueue(text,jsonb,text,integer,interval,timestamp with time zone,integer,double precision,text,text,text,text[],jsonb,timestamp with time zone,integer,text,text[],bigint,text): everybody may call it
+ penstock.enqueue(text,jsonb,text,integer,interval,timestamp with time zone,integer,double precision,text,text,text,text[],jsonb,timestamp with time zone,integer,text,text[],bigint,text): owner=X/owner penstock_app=X/owner
- penstock.enqueue_stored_v1(jsonb,text,jsonb,timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.enqueue_stored_v1(jsonb,text,jsonb,timestamp with time zone,timestamp with time zone): owner=X/owner
- penstock.enqueue_v1(text[],text[],smallint[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],timestamp with time zone,jsonb): everybody may call it
+ penstock.enqueue_v1(text[],text[],smallint[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],timestamp with time zone,jsonb): owner=X/owner penstock_app=X/owner
- penstock.enqueue_v2(text[],text[],smallint[],text[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],timestamp with time zone,jsonb): everybody may call it
+ penstock.enqueue_v2(text[],text[],smallint[],text[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],timestamp with time zone,jsonb): owner=X/owner penstock_app=X/owner
- penstock.enqueue_v3(text[],text[],smallint[],text[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],text[],bigint,bigint,text[],text[],text[],timestamp with time zone,jsonb): everybody may call it
+ penstock.enqueue_v3(text[],text[],smallint[],text[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],text[],timestamp with time zone[],text[],bytea[],text[],bigint,bigint,text[],text[],text[],timestamp with time zone,jsonb): owner=X/owner penstock_app=X/owner
- penstock.ensure_partitions_v1(integer,timestamp with time zone,date[]): everybody may call it
+ penstock.ensure_partitions_v1(integer,timestamp with time zone,date[]): owner=X/owner penstock_worker=X/owner
- penstock.ensure_partitions_v2(integer,timestamp with time zone,date[]): everybody may call it
+ penstock.ensure_partitions_v2(integer,timestamp with time zone,date[]): owner=X/owner penstock_worker=X/owner
- penstock.event_key_v1(text,text): everybody may call it
+ penstock.event_key_v1(text,text): owner=X/owner penstock_app=X/owner
- penstock.expire_v1(integer,timestamp with time zone): everybody may call it
+ penstock.expire_v1(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.expires_on_v1(date,integer): everybody may call it
+ penstock.expires_on_v1(date,integer): owner=X/owner penstock_app=X/owner
- penstock.explain_unsettled_v1(bigint[],uuid[]): everybody may call it
+ penstock.explain_unsettled_v1(bigint[],uuid[]): owner=X/owner
- penstock.extend_from_v1(bigint,uuid,integer,jsonb,timestamp with time zone): everybody may call it
+ penstock.extend_from_v1(bigint,uuid,integer,jsonb,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.extend_v1(bigint,jsonb,text,timestamp with time zone,jsonb): everybody may call it
+ penstock.extend_v1(bigint,jsonb,text,timestamp with time zone,jsonb): owner=X/owner penstock_app=X/owner
- penstock.fence_v1(bigint,uuid,timestamp with time zone): everybody may call it
+ penstock.fence_v1(bigint,uuid,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.fill_bucket_v1(text,timestamp with time zone): everybody may call it
+ penstock.fill_bucket_v1(text,timestamp with time zone): owner=X/owner
- penstock.find_cycle_v1(bigint): everybody may call it
+ penstock.find_cycle_v1(bigint): owner=X/owner penstock_app=X/owner
- penstock.find_jobs_v1(bigint[]): everybody may call it
+ penstock.find_jobs_v1(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.finish_v1(bigint[],uuid[],text[],text[],smallint[],smallint[],text[],text[],boolean,timestamp with time zone): everybody may call it
+ penstock.finish_v1(bigint[],uuid[],text[],text[],smallint[],smallint[],text[],text[],boolean,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.finish_v2(bigint[],uuid[],text[],text[],smallint[],smallint[],text[],text[],boolean,timestamp with time zone): everybody may call it
+ penstock.finish_v2(bigint[],uuid[],text[],text[],smallint[],smallint[],text[],text[],boolean,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.fire_schedule_v1(text,bigint,timestamp with time zone,timestamp with time zone,integer,timestamp with time zone[],timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.fire_schedule_v1(text,bigint,timestamp with time zone,timestamp with time zone,integer,timestamp with time zone[],timestamp with time zone,timestamp with time zone): owner=X/owner
- penstock.fire_tick_v1(text,timestamp with time zone,text,integer,text,timestamp with time zone): everybody may call it
+ penstock.fire_tick_v1(text,timestamp with time zone,text,integer,text,timestamp with time zone): owner=X/owner
- penstock.fire_v1(jsonb,timestamp with time zone): everybody may call it
+ penstock.fire_v1(jsonb,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.fold_batches_v1(bigint[],double precision,timestamp with time zone): everybody may call it
+ penstock.fold_batches_v1(bigint[],double precision,timestamp with time zone): owner=X/owner
- penstock.fold_v1(integer,bigint,double precision,timestamp with time zone): everybody may call it
+ penstock.fold_v1(integer,bigint,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.free_children_v1(bigint[],text[],bigint[],timestamp with time zone): everybody may call it
+ penstock.free_children_v1(bigint[],text[],bigint[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.grant_v1(bigint,text[],integer[],integer[],timestamp with time zone): everybody may call it
+ penstock.grant_v1(bigint,text[],integer[],integer[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.heartbeat_v1(bigint,double precision,jsonb,timestamp with time zone): everybody may call it
+ penstock.heartbeat_v1(bigint,double precision,jsonb,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.history_dates_v1(bigint[]): everybody may call it
+ penstock.history_dates_v1(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.hold_attempt_v1(bigint,uuid): everybody may call it
+ penstock.hold_attempt_v1(bigint,uuid): owner=X/owner
- penstock.hold_keys_v1(text[],text[],bytea[],timestamp with time zone): everybody may call it
+ penstock.hold_keys_v1(text[],text[],bytea[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.hold_unique_v1(bigint[],text[],text[],text[],timestamp with time zone): everybody may call it
+ penstock.hold_unique_v1(bigint[],text[],text[],text[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.hold_waits_v1(bigint[],timestamp with time zone): everybody may call it
+ penstock.hold_waits_v1(bigint[],timestamp with time zone): owner=X/owner
- penstock.is_paused_v1(text): everybody may call it
+ penstock.is_paused_v1(text): owner=X/owner penstock_worker=X/owner
- penstock.join_batch_v1(bigint,integer,text[],bigint): everybody may call it
+ penstock.join_batch_v1(bigint,integer,text[],bigint): owner=X/owner penstock_app=X/owner
- penstock.join_workflow_v1(bigint,text[]): everybody may call it
+ penstock.join_workflow_v1(bigint,text[]): owner=X/owner penstock_app=X/owner
+ penstock.joins_v1(bigint): owner=X/owner penstock_app=X/owner
- penstock.keep_durable_v1(): everybody may call it
+ penstock.keep_durable_v1(): owner=X/owner penstock_app=X/owner
- penstock.lane_key_v1(text,text,text,text,text,text,text): everybody may call it
+ penstock.lane_key_v1(text,text,text,text,text,text,text): owner=X/owner penstock_app=X/owner
- penstock.lane_v1(text,text,text): everybody may call it
+ penstock.lane_v1(text,text,text): owner=X/owner penstock_app=X/owner
- penstock.late_v1(text,text,text,timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.late_v1(text,text,text,timestamp with time zone,timestamp with time zone): owner=X/owner
- penstock.limit_v1(text): everybody may call it
+ penstock.limit_v1(text): owner=X/owner
- penstock.list_partitions_v1(): everybody may call it
+ penstock.list_partitions_v1(): owner=X/owner penstock_app=X/owner
- penstock.lock_grants_v1(text[]): everybody may call it
+ penstock.lock_grants_v1(text[]): owner=X/owner
- penstock.lose_unwritten_v1(bigint[],uuid[],text,timestamp with time zone): everybody may call it
+ penstock.lose_unwritten_v1(bigint[],uuid[],text,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.lose_v1(bigint[],uuid[],text,text,text,boolean,timestamp with time zone): everybody may call it
+ penstock.lose_v1(bigint[],uuid[],text,text,text,boolean,timestamp with time zone): owner=X/owner
- penstock.mark_begun_v1(bigint[],uuid[]): everybody may call it
+ penstock.mark_begun_v1(bigint[],uuid[]): owner=X/owner penstock_worker=X/owner
- penstock.match_jobs_v1(text[],text,text,text,text,text,bigint,bigint,bigint,bigint,timestamp with time zone,date,timestamp with time zone,bigint,integer): everybody may call it
+ penstock.match_jobs_v1(text[],text,text,text,text,text,bigint,bigint,bigint,bigint,timestamp with time zone,date,timestamp with time zone,bigint,integer): owner=X/owner penstock_app=X/owner
- penstock.move_v1(bigint[],uuid[],text[],timestamp with time zone): everybody may call it
+ penstock.move_v1(bigint[],uuid[],text[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.name_steps_v1(bigint,text[]): everybody may call it
+ penstock.name_steps_v1(bigint,text[]): owner=X/owner penstock_app=X/owner
- penstock.note_v1(text,text,text,text,jsonb): everybody may call it
+ penstock.note_v1(text,text,text,text,jsonb): owner=X/owner penstock_app=X/owner
- penstock.notify_due_v1(timestamp with time zone): everybody may call it
+ penstock.notify_due_v1(timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.notify_ready_v1(text,text,smallint,timestamp with time zone): everybody may call it
+ penstock.notify_ready_v1(text,text,smallint,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.open_bucket_v1(text,timestamp with time zone): everybody may call it
+ penstock.open_bucket_v1(text,timestamp with time zone): owner=X/owner
- penstock.open_lease_v1(text,double precision,jsonb,text,timestamp with time zone): everybody may call it
+ penstock.open_lease_v1(text,double precision,jsonb,text,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.overlap_v1(text,text): everybody may call it
+ penstock.overlap_v1(text,text): owner=X/owner
+ penstock.owns_v1(bigint): owner=X/owner penstock_app=X/owner
- penstock.place_v1(text[],text[],text[],text[],text[],smallint[],text[],text[],text[],text[]): everybody may call it
+ penstock.place_v1(text[],text[],text[],text[],text[],smallint[],text[],text[],text[],text[]): owner=X/owner penstock_app=X/owner
- penstock.progress_v1(bigint[],uuid[],double precision[],double precision[],text[],timestamp with time zone): everybody may call it
+ penstock.progress_v1(bigint[],uuid[],double precision[],double precision[],text[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.promote_v1(timestamp with time zone,integer,timestamp with time zone): everybody may call it
+ penstock.promote_v1(timestamp with time zone,integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.purge_v1(bigint[]): everybody may call it
+ penstock.purge_v1(bigint[]): owner=X/owner penstock_app=X/owner
- penstock.put_back_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],timestamp with time zone): everybody may call it
+ penstock.put_back_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],timestamp with time zone): owner=X/owner
- penstock.put_back_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],timestamp with time zone): everybody may call it
+ penstock.put_back_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],timestamp with time zone): owner=X/owner
- penstock.read_parents_v1(bigint,uuid): everybody may call it
+ penstock.read_parents_v1(bigint,uuid): owner=X/owner penstock_worker=X/owner
- penstock.read_steps_v1(bigint,uuid): everybody may call it
+ penstock.read_steps_v1(bigint,uuid): owner=X/owner penstock_worker=X/owner
- penstock.recall_step_v1(bigint,uuid,text,bytea,timestamp with time zone): everybody may call it
+ penstock.recall_step_v1(bigint,uuid,text,bytea,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.redrive_v1(bigint[],double precision,timestamp with time zone,timestamp with time zone): everybody may call it
+ penstock.redrive_v1(bigint[],double precision,timestamp with time zone,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.refuse_cycle_v1(bigint[],bigint[]): everybody may call it
+ penstock.refuse_cycle_v1(bigint[],bigint[]): owner=X/owner penstock_app=X/owner
- penstock.release_keys_v1(bigint[],timestamp with time zone): everybody may call it
+ penstock.release_keys_v1(bigint[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.release_v1(bigint,bigint[],timestamp with time zone): everybody may call it
+ penstock.release_v1(bigint,bigint[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.replace_v1(bigint[],boolean[],text[],text[],smallint[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],timestamp with time zone[],timestamp with time zone): everybody may call it
+ penstock.replace_v1(bigint[],boolean[],text[],text[],smallint[],text[],text[],smallint[],double precision[],timestamp with time zone[],integer[],double precision[],text[],text[],text[],text[],text[],timestamp with time zone[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.rescue_overtime_v1(double precision,integer,timestamp with time zone): everybody may call it
+ penstock.rescue_overtime_v1(double precision,integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.rescue_v1(integer,timestamp with time zone): everybody may call it
+ penstock.rescue_v1(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.reserve_v1(text,double precision,double precision,timestamp with time zone): everybody may call it
+ penstock.reserve_v1(text,double precision,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.retry_v1(bigint[],timestamp with time zone): everybody may call it
+ penstock.retry_v1(bigint[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.retry_v2(bigint[],timestamp with time zone,text[]): everybody may call it
+ penstock.retry_v2(bigint[],timestamp with time zone,text[]): owner=X/owner penstock_app=X/owner
- penstock.retry_workflow_v1(bigint,timestamp with time zone): everybody may call it
+ penstock.retry_workflow_v1(bigint,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.rules_v1(text[]): everybody may call it
+ penstock.rules_v1(text[]): owner=X/owner penstock_worker=X/owner
- penstock.rules_version_v1(): everybody may call it
+ penstock.rules_version_v1(): owner=X/owner penstock_worker=X/owner
- penstock.run_schedule_v1(text,text,timestamp with time zone): everybody may call it
+ penstock.run_schedule_v1(text,text,timestamp with time zone): owner=X/owner
- penstock.save_step_v1(bigint,uuid,text,text,jsonb,timestamp with time zone): everybody may call it
+ penstock.save_step_v1(bigint,uuid,text,text,jsonb,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.scan_lines_v1(text,integer): everybody may call it
+ penstock.scan_lines_v1(text,integer): owner=X/owner penstock_worker=X/owner
- penstock.scan_lines_v2(text,text,integer): everybody may call it
+ penstock.scan_lines_v2(text,text,integer): owner=X/owner penstock_worker=X/owner
- penstock.schedule_changed_v1(): everybody may call it
+ penstock.schedule_changed_v1(): owner=X/owner
- penstock.send_event_v1(text,jsonb,text,double precision,timestamp with time zone,jsonb): everybody may call it
+ penstock.send_event_v1(text,jsonb,text,double precision,timestamp with time zone,jsonb): owner=X/owner penstock_app=X/owner
- penstock.settings_changed_v1(): everybody may call it
+ penstock.settings_changed_v1(): owner=X/owner
- penstock.settle_unlocked_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone): everybody may call it
+ penstock.settle_unlocked_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone): owner=X/owner
- penstock.settle_unlocked_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone): everybody may call it
+ penstock.settle_unlocked_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone): owner=X/owner
- penstock.settle_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone,jsonb): everybody may call it
+ penstock.settle_v1(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone,jsonb): owner=X/owner penstock_worker=X/owner
- penstock.settle_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone,jsonb): everybody may call it
+ penstock.settle_v2(bigint[],uuid[],text[],text[],double precision[],smallint[],boolean[],text[],text[],timestamp with time zone,jsonb): owner=X/owner penstock_worker=X/owner
- penstock.share_step_v1(bigint,uuid,text,jsonb,bytea,double precision,timestamp with time zone): everybody may call it
+ penstock.share_step_v1(bigint,uuid,text,jsonb,bytea,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sleep_v1(bigint,uuid,text,timestamp with time zone,double precision,timestamp with time zone): everybody may call it
+ penstock.sleep_v1(bigint,uuid,text,timestamp with time zone,double precision,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sweep_cache_v1(bigint,integer,timestamp with time zone,bigint): everybody may call it
+ penstock.sweep_cache_v1(bigint,integer,timestamp with time zone,bigint): owner=X/owner penstock_worker=X/owner
- penstock.sweep_events_v1(bigint,integer,timestamp with time zone): everybody may call it
+ penstock.sweep_events_v1(bigint,integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sweep_fires_v1(integer,timestamp with time zone): everybody may call it
+ penstock.sweep_fires_v1(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sweep_steps_v1(bigint,integer): everybody may call it
+ penstock.sweep_steps_v1(bigint,integer): owner=X/owner penstock_worker=X/owner
- penstock.sweep_v1(integer,timestamp with time zone): everybody may call it
+ penstock.sweep_v1(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sweep_v2(integer,timestamp with time zone): everybody may call it
+ penstock.sweep_v2(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sweep_v3(integer,timestamp with time zone): everybody may call it
+ penstock.sweep_v3(integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.sync_schedules_v1(jsonb): everybody may call it
+ penstock.sync_schedules_v1(jsonb): owner=X/owner penstock_worker=X/owner
- penstock.take_v1(text[],integer[],timestamp with time zone): everybody may call it
+ penstock.take_v1(text[],integer[],timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.try_login_v1(bytea[],integer[],double precision[],timestamp with time zone): everybody may call it
+ penstock.try_login_v1(bytea[],integer[],double precision[],timestamp with time zone): owner=X/owner
- penstock.unblock_v1(bigint[],timestamp with time zone): everybody may call it
+ penstock.unblock_v1(bigint[],timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.unserved_v1(double precision,integer,timestamp with time zone): everybody may call it
+ penstock.unserved_v1(double precision,integer,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.wait_again_v1(bigint[],bigint[]): everybody may call it
+ penstock.wait_again_v1(bigint[],bigint[]): owner=X/owner penstock_app=X/owner
- penstock.wake_jobs_v1(bigint[],boolean,timestamp with time zone): everybody may call it
+ penstock.wake_jobs_v1(bigint[],boolean,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.wake_waiters_v1(bigint,text,text,integer,boolean,timestamp with time zone): everybody may call it
+ penstock.wake_waiters_v1(bigint,text,text,integer,boolean,timestamp with time zone): owner=X/owner penstock_app=X/owner
- penstock.wake_waits_v1(integer,bigint,timestamp with time zone): everybody may call it
+ penstock.wake_waits_v1(integer,bigint,timestamp with time zone): owner=X/owner penstock_worker=X/owner
- penstock.window_v1(jsonb,timestamp with time zone): everybody may call it
+ penstock.window_v1(jsonb,timestamp with time zone): owner=X/owner
- penstock.workflow_jobs_v1(bigint[]): everybody may call it
+ penstock.workflow_jobs_v1(bigint[]): owner=X/owner penstock_app=X/owner
== types
== tables
- S audit_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S audit_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner
- S batch_delta_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S batch_delta_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner
- S batch_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S batch_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner
- S event_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S event_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner penstock_app=U/owner
- S job_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S job_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner penstock_app=U/owner
- S workflow_id_seq: persistence p, security f f, partitions none, options none, rights of the owner
+ S workflow_id_seq: persistence p, security f f, partitions none, options none, rights owner=rwU/owner
- p job_history: persistence p, security f f, partitions RANGE (expires_on), options none, rights of the owner
+ p job_history: persistence p, security t f, partitions RANGE (expires_on), options none, rights owner=all/owner penstock_app=arwd/owner
- r api_key: persistence p, security f f, partitions none, options none, rights of the owner
+ r api_key: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r audit: persistence p, security f f, partitions none, options none, rights of the owner
+ r audit: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r batch: persistence p, security f f, partitions none, options none, rights of the owner
+ r batch: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=arw/owner
- r batch_delta: persistence p, security f f, partitions none, options none, rights of the owner
+ r batch_delta: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=ar/owner
- r bucket: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
+ r bucket: persistence p, security t f, partitions none, options fillfactor=50, rights owner=all/owner
- r dependency: persistence p, security f f, partitions none, options none, rights of the owner
+ r dependency: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=arwd/owner
- r event: persistence p, security f f, partitions none, options none, rights of the owner
+ r event: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=ar/owner
- r event_wait: persistence p, security f f, partitions none, options none, rights of the owner
+ r event_wait: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=rwd/owner
- r grant: persistence p, security f f, partitions none, options none, rights of the owner
+ r grant: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r job: persistence p, security f f, partitions none, options autovacuum_vacuum_scale_factor=0.02 autovacuum_vacuum_threshold=5000 autovacuum_vacuum_insert_scale_factor=0.5 autovacuum_analyze_scale_factor=0.2 autovacuum_vacuum_cost_limit=2000, rights of the owner
+ r job: persistence p, security t f, partitions none, options autovacuum_vacuum_scale_factor=0.02 autovacuum_vacuum_threshold=5000 autovacuum_vacuum_insert_scale_factor=0.5 autovacuum_analyze_scale_factor=0.2 autovacuum_vacuum_cost_limit=2000, rights owner=all/owner penstock_app=arwd/owner
- r lane_setting: persistence p, security f f, partitions none, options none, rights of the owner
+ r lane_setting: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r leader: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
+ r leader: persistence p, security t f, partitions none, options fillfactor=50, rights owner=all/owner
- r lease: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
+ r lease: persistence p, security t f, partitions none, options fillfactor=50, rights owner=all/owner
- r limit_setting: persistence p, security f f, partitions none, options none, rights of the owner
+ r limit_setting: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r login: persistence p, security f f, partitions none, options none, rights of the owner
+ r login: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r login_failure: persistence p, security f f, partitions none, options none, rights of the owner
+ r login_failure: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r migration: persistence p, security f f, partitions none, options none, rights of the owner
+ r migration: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_worker=r/owner penstock_app=r/owner
- r person: persistence p, security f f, partitions none, options none, rights of the owner
+ r person: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r plan: persistence p, security f f, partitions none, options none, rights of the owner
+ r plan: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=r/owner
- r progress: persistence p, security f f, partitions none, options fillfactor=70, rights of the owner
+ r progress: persistence p, security t f, partitions none, options fillfactor=70, rights owner=all/owner penstock_app=rd/owner
- r queue: persistence p, security f f, partitions none, options none, rights of the owner
+ r queue: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r retention: persistence p, security f f, partitions none, options none, rights of the owner
+ r retention: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=r/owner
- r schedule: persistence p, security f f, partitions none, options fillfactor=70, rights of the owner
+ r schedule: persistence p, security t f, partitions none, options fillfactor=70, rights owner=all/owner
- r schedule_fire: persistence p, security f f, partitions none, options none, rights of the owner
+ r schedule_fire: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r setting_version: persistence p, security f f, partitions none, options fillfactor=50, rights of the owner
+ r setting_version: persistence p, security t f, partitions none, options fillfactor=50, rights owner=all/owner
- r signal: persistence p, security f f, partitions none, options none, rights of the owner
+ r signal: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=a/owner
- r step: persistence p, security f f, partitions none, options none, rights of the owner
+ r step: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=rd/owner
- r step_cache: persistence p, security f f, partitions none, options none, rights of the owner
+ r step_cache: persistence p, security t f, partitions none, options none, rights owner=all/owner
- r tenant_setting: persistence p, security f f, partitions none, options none, rights of the owner
+ r tenant_setting: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=r/owner
- r unique_claim: persistence p, security f f, partitions none, options none, rights of the owner
+ r unique_claim: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=arwd/owner
- r workflow: persistence p, security f f, partitions none, options none, rights of the owner
+ r workflow: persistence p, security t f, partitions none, options none, rights owner=all/owner penstock_app=arw/owner
- v job_all: persistence p, security f f, partitions none, options none, rights of the owner
+ v job_all: persistence p, security f f, partitions none, options security_invoker=true, rights owner=all/owner penstock_app=r/owner
== views
== columns
- lease   1 id: bigint not null default (1 + ((('x'::text || encode(sha256(uuid_send(gen_random_uuid())), 'hex'::text)))::bit(53))::bigint), storage p, statistics usual, options none, rights of the table
+ lease   1 id: bigint not null default (1 + ((('x'::text || encode(sha256(uuid_send(gen_random_uuid())), 'hex'::text)))::bit(53))::bigint), storage p, statistics usual, options none, rights {penstock_app=r/owner}
- lease   4 expires_at: timestamp with time zone not null, storage p, statistics usual, options none, rights of the table
+ lease   4 expires_at: timestamp with time zone not null, storage p, statistics usual, options none, rights {penstock_app=r/owner}
- lease   6 worker: text not null, storage x, statistics usual, options none, rights of the table
+ lease   6 worker: text not null, storage x, statistics usual, options none, rights {penstock_app=r/owner}
- limit_setting   1 key: text not null, storage x, statistics usual, options none, rights of the table
+ limit_setting   1 key: text not null, storage x, statistics usual, options none, rights {penstock_app=r/owner}
- queue   1 name: text not null, storage x, statistics usual, options none, rights of the table
+ queue   1 name: text not null, storage x, statistics usual, options none, rights {penstock_app=r/owner}
- queue   2 paused_at: timestamp with time zone, storage p, statistics usual, options none, rights of the table
+ queue   2 paused_at: timestamp with time zone, storage p, statistics usual, options none, rights {penstock_app=r/owner}
- queue   3 fair: boolean not null default false, storage p, statistics usual, options none, rights of the table
+ queue   3 fair: boolean not null default false, storage p, statistics usual, options none, rights {penstock_app=r/owner}
- queue   4 lane_key: text, storage x, statistics usual, options none, rights of the table
+ queue   4 lane_key: text, storage x, statistics usual, options none, rights {penstock_app=r/owner}
- setting_version   2 places: boolean not null default false, storage p, statistics usual, options none, rights of the table
+ setting_version   2 places: boolean not null default false, storage p, statistics usual, options none, rights {penstock_app=r/owner}
== constraints
== indexes
== triggers
== policies
+ audit tenant: PERMISSIVE SELECT to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ batch tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ batch_delta tenant: PERMISSIVE ALL to {penstock_app} using (EXISTS ( SELECT
+    FROM penstock.batch b
+   WHERE (b.id = batch_delta.batch))) check ((EXISTS ( SELECT
+    FROM penstock.batch b
+   WHERE (b.id = batch_delta.batch))) OR (EXISTS ( SELECT
+    FROM penstock.job j
+   WHERE (j.batch = batch_delta.batch))) OR (EXISTS ( SELECT
+    FROM penstock.job_history h
+   WHERE (h.batch = batch_delta.batch))))
+ dependency tenant: PERMISSIVE ALL to {penstock_app} using (EXISTS ( SELECT
+    FROM penstock.workflow w
+   WHERE (w.id = dependency.workflow))) check none
+ event tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ event_wait tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ job tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check ((tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) AND ((batch IS NULL) OR (EXISTS ( SELECT
+    FROM penstock.batch b
+   WHERE (b.id = job.batch))) OR penstock.joins_v1(batch)) AND ((workflow IS NULL) OR (EXISTS ( SELECT
+    FROM penstock.workflow w
+   WHERE (w.id = job.workflow)))))
+ job_history tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check ((tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) AND ((batch IS NULL) OR (EXISTS ( SELECT
+    FROM penstock.batch b
+   WHERE (b.id = job_history.batch))) OR penstock.joins_v1(batch)) AND ((workflow IS NULL) OR (EXISTS ( SELECT
+    FROM penstock.workflow w
+   WHERE (w.id = job_history.workflow)))))
+ lease tenant: PERMISSIVE SELECT to {penstock_app} using (EXISTS ( SELECT
+    FROM penstock.job j
+   WHERE ((j.state = 'running'::text) AND (j.lease = lease.id)))) check none
+ limit_setting tenant: PERMISSIVE SELECT to {penstock_app} using ((NULLIF(current_setting('penstock.tenant'::text, true), ''::text) IS NOT NULL) AND starts_with(key, 'task:'::text)) check none
+ migration tenant: PERMISSIVE SELECT to {penstock_app,penstock_worker} using true check none
+ plan tenant: PERMISSIVE SELECT to {penstock_app} using (name = ( SELECT t.plan
+    FROM penstock.tenant_setting t
+   WHERE (t.tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)))) check none
+ progress tenant: PERMISSIVE ALL to {penstock_app} using penstock.owns_v1(job) check none
+ queue tenant: PERMISSIVE SELECT to {penstock_app} using (NULLIF(current_setting('penstock.tenant'::text, true), ''::text) IS NOT NULL) check none
+ retention tenant: PERMISSIVE SELECT to {penstock_app} using ((NULLIF(current_setting('penstock.tenant'::text, true), ''::text) IS NOT NULL) AND (tenant = ANY (ARRAY[''::text, NULLIF(current_setting('penstock.tenant'::text, true), ''::text)]))) check none
+ schedule tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ schedule_fire tenant: PERMISSIVE ALL to {penstock_app} using (EXISTS ( SELECT
+    FROM penstock.schedule s
+   WHERE (s.name = schedule_fire.schedule))) check none
+ setting_version tenant: PERMISSIVE SELECT to {penstock_app} using (NULLIF(current_setting('penstock.tenant'::text, true), ''::text) IS NOT NULL) check none
+ signal tenant: PERMISSIVE INSERT to {penstock_app} using none check penstock.owns_v1(job)
+ step tenant: PERMISSIVE ALL to {penstock_app} using penstock.owns_v1(job) check none
+ step_cache tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ tenant_setting tenant: PERMISSIVE SELECT to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ unique_claim tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
+ workflow tenant: PERMISSIVE ALL to {penstock_app} using (tenant = NULLIF(current_setting('penstock.tenant'::text, true), ''::text)) check none
== sequences
== statistics
== comments
== schema
- rights: of the owner
+ rights: {owner=UC/owner,penstock_worker=U/owner,penstock_app=U/owner}
