-- name: cut_connections
-- For tests: end the connections of one kind from the server's side.
SELECT pg_terminate_backend(a.pid) AS cut
  FROM pg_stat_activity AS a
 WHERE a.datname = current_database() AND a.application_name = $1 AND a.pid <> pg_backend_pid();
