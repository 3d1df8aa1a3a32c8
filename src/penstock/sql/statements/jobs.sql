-- name: job_columns
-- The columns of a job, live or final.
a.id, a.task, a.state, a.queue, a.lane, a.reason, a.priority, a.tenant, a.subject, a.requested_by,
a.tags, a.attempt, a.failures, a.losses, a.max_attempts, a.timeout, a.retry::text, a.args::text, a.args_version,
a.meta::text, a.created_at, a.run_at, a.ready_at, a.attempted_at, a.finished_at, a.deadline,
a.errors::text, a.result::text, a.batch, a.workflow, a.step, a.unique_key

-- name: progress_columns
-- The progress that its handler reported last.
(SELECT ARRAY[p.done::text, p.total::text, p.message]
   FROM :"schema".progress AS p WHERE p.job = a.id) AS progress

-- name: get_jobs
-- Return jobs by id, live or final, in one statement; for running ones also the worker.
SELECT :job_columns, a.stuck_since, a.pending, l.worker, :progress_columns
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".job AS j ON j.id = a.id
  LEFT JOIN :"schema".lease AS l ON l.id = j.lease;

-- name: list_jobs
-- List jobs by filter, newest first: a page that begins after a job.
SELECT :job_columns, a.stuck_since, a.pending, :progress_columns
  FROM :"schema".job_all AS a
 WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
   AND ($2::text IS NULL OR a.queue = $2::text)
   AND ($3::text IS NULL OR a.task = $3::text)
   AND ($4::text IS NULL OR a.tenant = $4::text)
   AND ($5::text IS NULL OR a.subject = $5::text)
   AND ($6::text IS NULL OR $6::text = ANY (a.tags))
   AND ($7::bigint IS NULL OR a.id < $7::bigint)
 ORDER BY a.id DESC
 LIMIT $8::integer;

-- name: list_jobs_of_batch
-- List jobs of a batch by filter, newest first: a page that begins after a job. It is not part of list_jobs, so that it has
-- a plan of its own: as a range of one batch, in the order of the index of batches.
SELECT :job_columns, a.stuck_since, a.pending, :progress_columns
  FROM :"schema".job_all AS a
 WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
   AND ($2::text IS NULL OR a.queue = $2::text)
   AND ($3::text IS NULL OR a.task = $3::text)
   AND ($4::text IS NULL OR a.tenant = $4::text)
   AND ($5::text IS NULL OR a.subject = $5::text)
   AND ($6::text IS NULL OR $6::text = ANY (a.tags))
   AND ($7::bigint IS NULL OR a.id < $7::bigint)
   AND a.batch >= $9::bigint AND a.batch <= $9::bigint
 ORDER BY a.batch DESC, a.id DESC
 LIMIT $8::integer;

-- name: list_jobs_of_workflow
-- List jobs of a workflow by filter, newest first: a page that begins after a job. It is not part of list_jobs, so that it
-- has a plan of its own.
SELECT :job_columns, a.stuck_since, a.pending, :progress_columns
  FROM :"schema".job_all AS a
 WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
   AND ($2::text IS NULL OR a.queue = $2::text)
   AND ($3::text IS NULL OR a.task = $3::text)
   AND ($4::text IS NULL OR a.tenant = $4::text)
   AND ($5::text IS NULL OR a.subject = $5::text)
   AND ($6::text IS NULL OR $6::text = ANY (a.tags))
   AND ($7::bigint IS NULL OR a.id < $7::bigint)
   AND a.workflow = $9::bigint
 ORDER BY a.id DESC
 LIMIT $8::integer;

-- name: find_jobs_by_text
-- Scan the newest jobs that match a filter, up to a number, and return those whose arguments contain a text, and the last
-- job scanned.
SELECT count(*) AS seen, min(s.id) AS last,
       coalesce(array_agg(s.id ORDER BY s.id DESC) FILTER (WHERE s.holds), '{}') AS ids
  FROM (SELECT a.id, position(lower($9::text) IN lower(a.args::text)) > 0 AS holds
          FROM :"schema".job_all AS a
         WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
           AND ($2::text IS NULL OR a.queue = $2::text)
           AND ($3::text IS NULL OR a.task = $3::text)
           AND ($4::text IS NULL OR a.tenant = $4::text)
           AND ($5::text IS NULL OR a.subject = $5::text)
           AND ($6::text IS NULL OR $6::text = ANY (a.tags))
           AND ($7::bigint IS NULL OR a.id < $7::bigint)
         ORDER BY a.id DESC
         LIMIT $8::integer) AS s;

-- name: find_last_job_up_to
-- Return the job with the highest id up to $1, and when it was enqueued. Ids rise with time.
SELECT a.id, a.created_at FROM :"schema".job_all AS a WHERE a.id <= $1::bigint ORDER BY a.id DESC LIMIT 1;

-- name: get_newest_id
-- Return the highest id of any job of this schema ($1) so far, whether or not it still exists; NULL if there was none.
SELECT pg_sequence_last_value(s.oid) AS id
  FROM pg_class AS s
 WHERE s.relkind = 'S' AND s.relname = 'job_id_seq' AND s.relnamespace = to_regnamespace(quote_ident($1::text));

-- name: match_jobs
-- Return the ids of jobs by filter, a page at a time, for bulk changes.
SELECT m.id, m.day, m.at, m.until
  FROM :"schema".match_jobs_v1(
           $1::text[], $2::text, $3::text, $4::text, $5::text, $6::text, $7::bigint, $8::bigint, $9::bigint, $10::bigint,
           $11::timestamptz, $12::date, $13::timestamptz, $14::bigint, $15::integer) AS m;

-- name: watch_jobs
-- Return jobs for live updates. `changed_at` is the newest of the times that changes of state leave in the row. It never
-- decreases, since a row that moves keeps its times, and it is the same for all readers. Progress reports meanwhile
-- increase `changes`.
--
-- For a job that has ended, the progress is left out, because it is swept later. $2 is how many bytes a result may have to
-- be included.
SELECT a.id, a.task, a.state, a.reason, a.queue, a.tenant, a.subject, a.requested_by, a.attempt, a.failures, a.losses,
       a.max_attempts, a.created_at, a.run_at, a.attempted_at, a.finished_at, a.batch, a.workflow, a.step, p.done,
       p.total, p.message, CASE WHEN a.errors -> -1 ->> 'kind' IS DISTINCT FROM 'rerun' THEN ((a.errors -> -1) - 'traceback')::text END AS error,
       CASE WHEN octet_length(a.result::text) <= $2::integer THEN a.result::text END AS result,
       coalesce(octet_length(a.result::text) > $2::integer, false) AS result_left_out,
       greatest(a.created_at, a.ready_at, a.attempted_at, a.finished_at, (a.errors -> -1 ->> 'at')::timestamptz) AS changed_at,
       coalesce(p.version, 0) AS changes
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id AND a.finished_at IS NULL;

-- name: watch_owners
-- Count the newest jobs of some tenants ($1) and of some users who requested them ($2) by state. With $3, only those of that
-- tenant. The newest are the last $4 ids that were assigned: so the number of rows read is bounded for every role, also
-- under row level security. Running jobs are counted by their index, up to $4.
-- The LIMITs cut nothing: they make the planner look up ids in their order, whatever the statistics say.
WITH since AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value(s.oid), 0) - $4::integer AS id FROM pg_class AS s
     WHERE s.relkind = 'S' AND s.relname = 'job_id_seq'
       AND s.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $5::text)
), newest AS MATERIALIZED (
    (SELECT j.tenant, j.requested_by, j.state FROM :"schema".job AS j
      WHERE j.id > (SELECT i.id FROM since AS i) ORDER BY j.id DESC LIMIT $4::integer)
     UNION ALL
    (SELECT h.tenant, h.requested_by, h.state FROM :"schema".job_history AS h
      WHERE h.id > (SELECT i.id FROM since AS i) ORDER BY h.id DESC LIMIT $4::integer)
), running AS MATERIALIZED (
    SELECT j.tenant, j.requested_by, j.state FROM :"schema".job AS j
     WHERE j.state = 'running' ORDER BY j.lease LIMIT $4::integer
), seen AS MATERIALIZED (
    SELECT a.tenant, a.requested_by, a.state
      FROM (SELECT n.tenant, n.requested_by, n.state FROM newest AS n WHERE n.state <> 'running'
             UNION ALL
            SELECT r.tenant, r.requested_by, r.state FROM running AS r) AS a
     WHERE a.tenant = coalesce($3::text, a.tenant)
), watched AS (
    SELECT 'tenant' AS kind, t.name, s.state FROM unnest($1::text[]) AS t (name) LEFT JOIN seen AS s ON s.tenant = t.name
     UNION ALL
    SELECT 'user', u.name, s.state FROM unnest($2::text[]) AS u (name) LEFT JOIN seen AS s ON s.requested_by = u.name
)
SELECT w.kind, w.name, statement_timestamp() AS now,
       count(*) FILTER (WHERE w.state = 'scheduled') AS scheduled, count(*) FILTER (WHERE w.state = 'ready') AS ready,
       count(*) FILTER (WHERE w.state = 'running') AS running, count(*) FILTER (WHERE w.state = 'blocked') AS blocked,
       count(*) FILTER (WHERE w.state = 'completed') AS completed, count(*) FILTER (WHERE w.state = 'failed') AS failed,
       count(*) FILTER (WHERE w.state = 'cancelled') AS cancelled
  FROM watched AS w GROUP BY w.kind, w.name;

-- name: get_states
-- Return the states of many jobs in one call.
SELECT a.id, a.state, a.reason, p.done, p.total, p.message
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  LEFT JOIN :"schema".progress AS p ON p.job = a.id;

-- name: list_dependencies
-- Return the jobs that a job waits for, first those whose end is not counted. The state of a deleted job is missing.
WITH awaited AS MATERIALIZED (
    SELECT d.parent, d.workflow, d.satisfied, d.on_failure FROM :"schema".dependency AS d WHERE d.child = $1::bigint
)
SELECT d.parent AS id, a.step, a.task, coalesce(a.state, 'missing') AS state, d.satisfied, d.on_failure
  FROM awaited AS d
  LEFT JOIN :"schema".find_jobs_v1(ARRAY(SELECT o.parent FROM awaited AS o)) AS a ON a.id = d.parent AND a.workflow = d.workflow
 ORDER BY d.satisfied, d.parent;

-- name: find_unique_holders
-- Return who holds the unique keys of jobs, and until when if the holder has ended. $1 are the jobs' ids.
SELECT a.id, u.job, u.expires_at AS until
  FROM :"schema".find_jobs_v1($1::bigint[]) AS a
  JOIN :"schema".unique_claim AS u ON u.kind = 'unique' AND u.tenant = a.tenant AND u.key = a.unique_key
 WHERE (u.expires_at <= statement_timestamp()) IS NOT TRUE;

-- name: cancel_jobs
-- Cancel jobs at once. If $3 names who did it, that is written to the audit.
WITH done AS MATERIALIZED (
    SELECT c.id, c.answer FROM :"schema".cancel_v1($1::bigint[], $2::text) AS c
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($3::text, 'cancel', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                                    jsonb_build_object('jobs', count(*), 'reason', $2::text)
                                    || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer = 'cancelled' AND $3::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;

-- name: retry_jobs
-- Run jobs again; final jobs only if their state is among $3. If $2 names who did it, that is written to the audit.
WITH done AS MATERIALIZED (
    SELECT r.id, r.answer FROM :"schema".retry_v1($1::bigint[], p_states => $3::text[]) AS r
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'retry', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                                    jsonb_build_object('jobs', count(*))
                                    || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer IN ('ready', 'blocked') AND $2::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;

-- name: delete_jobs
-- Delete jobs that are not running. If $2 names who did it, that is written to the audit.
WITH done AS MATERIALIZED (
    SELECT e.id, e.answer FROM :"schema".delete_v1($1::bigint[]) AS e
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'delete', NULL, CASE WHEN count(*) = 1 THEN min(d.id)::text END,
                                    jsonb_build_object('jobs', count(*))
                                    || CASE WHEN count(*) > 1 THEN jsonb_build_object('ids', jsonb_agg(d.id::text)) ELSE '{}' END)
      FROM done AS d WHERE d.answer = 'deleted' AND $2::text IS NOT NULL HAVING count(*) > 0
)
SELECT d.id, d.answer FROM done AS d LEFT JOIN noted ON true;

-- name: unblock_jobs
-- Let blocked jobs run now, without the jobs that they wait for, and write to the audit how many and by whom ($2).
WITH freed AS MATERIALIZED (
    SELECT u.id, u.answer FROM :"schema".unblock_v1($1::bigint[]) AS u
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($2::text, 'unblock', NULL,
                                    CASE WHEN cardinality($1::bigint[]) = 1 THEN ($1::bigint[])[1]::text END,
                                    jsonb_build_object('jobs', count(*)))
      FROM freed AS f WHERE f.answer = 'ready' HAVING count(*) > 0
)
SELECT f.id, f.answer FROM freed AS f LEFT JOIN noted ON true;
