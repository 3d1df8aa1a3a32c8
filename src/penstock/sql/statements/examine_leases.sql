-- Worker sessions, the newest first: those that live and those that ended without giving their lease back.
SELECT l.id, l.worker, l.info,
       extract(epoch FROM n.now - l.created_at)::double precision AS age,
       extract(epoch FROM n.now - l.renewed_at)::double precision AS silent,
       extract(epoch FROM l.expires_at - l.renewed_at)::double precision AS length,
       l.expires_at > n.now AS alive
  FROM :"schema".lease AS l
 CROSS JOIN (SELECT clock_timestamp() AS now) AS n
 WHERE l.kind = 'worker'
 ORDER BY l.id DESC
 LIMIT 1000;
