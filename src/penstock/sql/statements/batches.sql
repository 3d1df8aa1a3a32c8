-- name: open_batch
-- Open a batch. It stays open until it is closed. If $5 names who opened it, that is written to the audit.
WITH made AS (
    INSERT INTO :"schema".batch (tenant, name, callbacks, meta)
    VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb)
    RETURNING id, tenant
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($5::text, 'open_batch', m.tenant, m.id::text, NULL) FROM made AS m WHERE $5::text IS NOT NULL
)
SELECT m.id FROM made AS m LEFT JOIN noted ON true;

-- name: close_batch
-- Close a batch, so that no job can be added; if $2 is a reason, cancel it for that reason.
-- With $3 it is written to the audit, with the number of pending jobs and who did it ($4).
WITH closed AS MATERIALIZED (
    SELECT c.answer FROM :"schema".close_batch_v1(ARRAY[$1::bigint], $2::text IS NOT NULL) AS c
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($4::text, CASE WHEN $2::text IS NULL THEN 'close_batch' ELSE 'cancel_batch' END,
                                    b.tenant, b.id::text,
                                    jsonb_strip_nulls(jsonb_build_object('pending', b.pending + d.pending, 'reason', $2::text)))
      FROM closed AS c JOIN :"schema".batch AS b ON b.id = $1::bigint AND c.answer = 'closed' AND $3::boolean
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(e.pending), 0) AS pending FROM :"schema".batch_delta AS e WHERE e.batch = b.id) AS d
)
SELECT c.answer FROM closed AS c LEFT JOIN noted ON true;

-- name: cancel_batch
-- Cancel some jobs of a batch, after an id. Returns how many were found, how many cancelled, and the id of the last one.
SELECT c.found, c.cancelled, c.last FROM :"schema".cancel_batch_v1($1::bigint, $2::bigint, $3::integer, $4::text) AS c;

-- name: get_batches
-- Return batches with their present counts: those of the row, plus the deltas that are not folded into it yet. One
-- statement reads both in one snapshot. The rate decays since the last fold, as the next fold will store it, but not for
-- time without pending jobs.
--
-- Running jobs are counted by their index, which has only as many of them as workers hold.
WITH running AS MATERIALIZED (
    SELECT r.batch, count(*) AS number
      FROM (SELECT j.batch FROM :"schema".job AS j WHERE j.state = 'running' ORDER BY j.lease LIMIT 1000000) AS r
     WHERE r.batch = ANY ($1::bigint[]) GROUP BY r.batch
)
SELECT b.id, b.tenant, b.name, b.meta::text, b.created_at, b.closed_at, b.cancelled_at,
       CASE WHEN b.pending + d.pending = 0 THEN b.finished_at END AS finished_at,
       b.failure_job, b.success_job, b.end_job,
       b.total + d.total AS total, b.pending + d.pending AS pending, coalesce(r.number, 0) AS running,
       b.completed + d.completed AS completed, b.failed + d.failed AS failed, b.cancelled + d.cancelled AS cancelled,
       (b.rate * a.fading + (1 - a.fading) * greatest(0, d.completed + d.failed + d.cancelled) / a.seconds)
           / (b.rate_weight * a.fading + 1 - a.fading) AS rate,
       greatest(b.created_at, b.closed_at, b.cancelled_at, b.folded_at, b.finished_at) AS changed_at, d.changes
  FROM :"schema".batch AS b
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(e.total), 0) AS total, coalesce(sum(e.pending), 0) AS pending,
              coalesce(sum(e.completed), 0) AS completed, coalesce(sum(e.failed), 0) AS failed,
              coalesce(sum(e.cancelled), 0) AS cancelled, min(e.created_at) AS since, count(*) AS changes
         FROM :"schema".batch_delta AS e WHERE e.batch = b.id) AS d
 CROSS JOIN LATERAL (
       SELECT greatest(0.001, extract(epoch FROM statement_timestamp() - CASE WHEN b.pending = 0
                  THEN greatest(d.since, b.folded_at) ELSE coalesce(b.folded_at, b.created_at) END))::double precision AS seconds) AS t
 CROSS JOIN LATERAL (SELECT t.seconds, exp(-least(t.seconds, 600) / 30) AS fading) AS a
  LEFT JOIN running AS r ON r.batch = b.id
 WHERE b.id = ANY ($1::bigint[])
 ORDER BY b.id DESC;

-- name: list_batches
-- Return the ids of batches by filter, newest first: a page that begins after a batch.
SELECT b.id
  FROM :"schema".batch AS b
 WHERE ($1::text IS NULL OR b.tenant = $1::text)
   AND ($2::text IS NULL OR b.name = $2::text)
   AND ($3::text IS NULL OR $3::text = CASE WHEN b.closed_at IS NULL THEN 'open'
                                            WHEN b.finished_at IS NULL THEN 'running' ELSE 'finished' END)
   AND ($4::bigint IS NULL OR b.id < $4::bigint)
 ORDER BY b.id DESC
 LIMIT $5::integer;

-- name: is_batch_finished
-- Return whether a batch is finished, for those who wait. It computes only what decides that; see get_batches.
SELECT b.closed_at IS NOT NULL AND b.finished_at IS NOT NULL AND b.pending + d.pending = 0 AS is_finished
  FROM :"schema".batch AS b
 CROSS JOIN LATERAL (
       SELECT coalesce(sum(e.pending), 0) AS pending FROM :"schema".batch_delta AS e WHERE e.batch = b.id) AS d
 WHERE b.id = $1::bigint;
