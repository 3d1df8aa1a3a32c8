-- name: send_event
-- Send an event; its id, and how many jobs it woke at once. Who sent it ($6) is noted, if it is said.
WITH sent AS MATERIALIZED (
    SELECT s.id, s.woken
      FROM :"schema".send_event_v1($1::text, $2::text::jsonb, $3::text, $4::double precision, NULL, $5::text::jsonb) AS s
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($6::text, 'send_event', $3::text, $1::text, jsonb_build_object('id', s.id::text, 'woken', s.woken))
      FROM sent AS s WHERE $6::text IS NOT NULL
)
SELECT s.id, s.woken FROM sent AS s LEFT JOIN noted ON true;
