-- How many sessions on this database does our role not see into?
SELECT count(*)::integer AS hidden, current_user::text AS role
  FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.query = '<insufficient privilege>';
