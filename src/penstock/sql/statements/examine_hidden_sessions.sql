-- name: examine_hidden_sessions
-- How many sessions on this database does our role not see into? The server's own processes are none: nobody's role.
SELECT count(*)::integer AS hidden, current_user::text AS role
  FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.usesysid IS NOT NULL AND a.query = '<insufficient privilege>';
