-- name: tell_version
-- The version of the server as a number: 160004 for 16.4.
SELECT current_setting('server_version_num')::integer AS version;
