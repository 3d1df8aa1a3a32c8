-- name: examine_snapshots
-- Who keeps vacuum from removing dead rows of this database, the oldest first.
--
-- A session does as long as it has a snapshot or a transaction id of its own; one that is merely open does
-- not. Of other databases only standbys and replication slots count. A VACUUM does not hold itself back.
SELECT h.kind, h.pid, h.name, h.role, h.application, h.state, h.seconds, h.transactions, h.query
  FROM (
    SELECT 'session' AS kind, a.pid, NULL::text AS name, a.usename::text AS role, a.application_name AS application,
           a.state, extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS seconds,
           greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions,
           left(regexp_replace(a.query, '\s+', ' ', 'g'), 200) AS query
      FROM pg_stat_activity AS a
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
       AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
       AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
       AND a.query NOT ILIKE 'vacuum%'
    UNION ALL
    SELECT 'prepared', NULL, p.gid, p.owner::text, NULL, 'prepared',
           extract(epoch FROM clock_timestamp() - p.prepared), age(p.transaction), NULL
      FROM pg_prepared_xacts AS p
     WHERE p.database = current_database()
    UNION ALL
    SELECT 'slot', s.active_pid, s.slot_name::text, NULL, NULL,
           CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, age(s.xmin), NULL
      FROM pg_replication_slots AS s
     WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', r.pid, host(r.client_addr), r.usename::text, r.application_name, r.state, NULL,
           age(r.backend_xmin), NULL
      FROM pg_stat_replication AS r
     WHERE r.backend_xmin IS NOT NULL
  ) AS h
 ORDER BY h.transactions DESC
 LIMIT 20;
