-- name: examine_connections
-- How many connections there are, and how many there may be: on the server, to this database, of this role.
SELECT 'server' AS whose, '' AS name, (SELECT sum(d.numbackends) FROM pg_stat_database AS d)::integer AS used,
       current_setting('max_connections')::integer
       - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true), '0')::integer AS most
UNION ALL
SELECT 'database', d.datname::text, s.numbackends, d.datconnlimit
  FROM pg_database AS d
  JOIN pg_stat_database AS s ON s.datid = d.oid
 WHERE d.datname = current_database() AND d.datconnlimit >= 0
UNION ALL
SELECT 'role', r.rolname::text,
       (SELECT count(*) FROM pg_stat_activity AS a WHERE a.usesysid = r.oid)::integer, r.rolconnlimit
  FROM pg_roles AS r
 WHERE r.rolname = session_user AND r.rolconnlimit >= 0;
