-- name: examine_server
-- Which server is this, and who are we to it?
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::integer / 10000 AS major,
       pg_is_in_recovery() AS standby,
       current_database()::text AS database,
       current_user::text AS role;
