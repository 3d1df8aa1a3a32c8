-- name: send_event
-- Send an event. Returns its id, and how many jobs it woke. If $6 names who sent it, that is written to the audit.
WITH sent AS MATERIALIZED (
    SELECT s.id, s.woken
      FROM :"schema".send_event_v1($1::text, $2::text::jsonb, $3::text, $4::double precision, NULL, $5::text::jsonb) AS s
), noted AS MATERIALIZED (
    SELECT :"schema".write_audit_v1($6::text, 'send_event', $3::text, $1::text, jsonb_build_object('id', s.id::text, 'woken', s.woken))
      FROM sent AS s WHERE $6::text IS NOT NULL
)
SELECT s.id, s.woken FROM sent AS s LEFT JOIN noted ON true;

-- name: await_event
-- Return what an attempt gets that waits for an event; see await_event_v1.
SELECT answer, result::text FROM :"schema".await_event_v1(
           $1::bigint, $2::uuid, $3::text, $4::text, $5::bigint, $6::double precision);

-- name: list_events
-- List the events that are kept, newest first.
SELECT e.id, e.tenant, e.name, e.payload::text, e.sent_at, e.expires_at
  FROM :"schema".event AS e
 WHERE ($1::text IS NULL OR e.name = $1) AND ($2::text IS NULL OR e.tenant = $2) AND ($3::bigint IS NULL OR e.id < $3)
   AND e.expires_at > statement_timestamp()
 ORDER BY e.id DESC
 LIMIT $4;
