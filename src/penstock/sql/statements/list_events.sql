-- name: list_events
-- Events that are kept, newest first.
SELECT e.id, e.tenant, e.name, e.payload::text, e.sent_at, e.expires_at
  FROM :"schema".event AS e
 WHERE ($1::text IS NULL OR e.name = $1) AND ($2::text IS NULL OR e.tenant = $2) AND ($3::bigint IS NULL OR e.id < $3)
   AND e.expires_at > statement_timestamp()
 ORDER BY e.id DESC
 LIMIT $4;
