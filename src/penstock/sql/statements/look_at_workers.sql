-- name: look_at_workers
-- Every lease, those that have expired included: whose it is, how much runs under it, what it holds of limits,
-- and who leads the maintenance.
-- $1 is how far to count, $2 how many to show: those that live first. All are counted, the living ones apart. A page
-- begins behind the lease $3, in the order of this moment.
WITH ranked AS MATERIALIZED (
    SELECT w.id, w.worker, w.kind, w.created_at, w.renewed_at, w.expires_at, w.info,
           count(*) OVER () AS in_all, count(*) FILTER (WHERE w.expires_at > statement_timestamp()) OVER () AS alive_in_all,
           row_number() OVER (ORDER BY w.expires_at > statement_timestamp() DESC, w.created_at, w.id) AS place
      FROM :"schema".lease AS w
), chosen AS MATERIALIZED (
    SELECT r.* FROM ranked AS r
     WHERE $3::bigint IS NULL OR r.place > (SELECT a.place FROM ranked AS a WHERE a.id = $3::bigint)
     ORDER BY r.place
     LIMIT $2::integer
)
SELECT l.id, l.worker AS name, l.kind, l.created_at AS started_at, l.renewed_at, l.expires_at,
       l.info::text AS info, coalesce(h.grants, '[]')::text AS grants,
       l.expires_at > statement_timestamp() AS is_alive, r.jobs AS running,
       extract(epoch FROM statement_timestamp() - l.renewed_at)::double precision AS silent,
       EXISTS (SELECT FROM :"schema".leader AS e
                WHERE e.role = 'maintenance' AND e.lease = l.id AND e.expires_at > statement_timestamp()) AS is_leader,
       l.in_all, l.alive_in_all, l.place
  FROM chosen AS l
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'running' AND j.lease = l.id
                LIMIT $1::integer + 1) AS few) AS r
 CROSS JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('key', f.key, 'slots', f.slots, 'wanted', f.wanted)
                        ORDER BY f.slots DESC, f.key) AS grants
         FROM (SELECT g.key, g.slots, g.wanted FROM :"schema"."grant" AS g WHERE g.lease = l.id
                ORDER BY g.slots DESC, g.key LIMIT 100) AS f) AS h
 ORDER BY l.created_at, l.id;
