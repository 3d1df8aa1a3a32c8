-- name: get_batches
-- Batches with their counts at this moment: those of the row, and the deltas that are not folded into it yet. One
-- statement sees both as of one moment. The rate fades since the last fold, as the next one will let it, but not in the
-- time in which nothing was pending.
--
-- What runs is counted by the index of running jobs, which has no more of them than workers hold.
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
