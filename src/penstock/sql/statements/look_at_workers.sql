-- Every lease, those that have expired included: whose it is, how much runs under it, who leads.
-- $1 is how far to count.
SELECT l.id, l.worker AS name, l.kind, l.created_at AS started_at, l.renewed_at, l.expires_at,
       l.info::text AS info, l.expires_at > statement_timestamp() AS is_alive, r.jobs AS running,
       extract(epoch FROM statement_timestamp() - l.renewed_at)::double precision AS silent,
       EXISTS (SELECT FROM :"schema".leader AS e
                WHERE e.lease = l.id AND e.expires_at > statement_timestamp()) AS is_leader
  FROM :"schema".lease AS l
 CROSS JOIN LATERAL (
       SELECT count(*) AS jobs
         FROM (SELECT FROM :"schema".job AS j WHERE j.state = 'running' AND j.lease = l.id
                LIMIT $1::integer + 1) AS few) AS r
 ORDER BY l.created_at, l.id
 LIMIT 1000;
