-- Who does the maintenance?
SELECT l.worker,
       extract(epoch FROM clock_timestamp() - r.elected_at)::double precision AS since,
       r.expires_at > clock_timestamp() AND coalesce(l.expires_at > clock_timestamp(), false) AS alive
  FROM :"schema".leader AS r
  LEFT JOIN :"schema".lease AS l ON l.id = r.lease
 WHERE r.role = 'maintenance';
