-- name: examine_settings
-- Settings as a new connection of this role finds them; what this transaction has set for itself is left out.
SELECT s.name, s.reset_val AS value, session_user::text AS role
  FROM pg_settings AS s
 WHERE s.name = ANY ($1::text[])
 ORDER BY s.name;
