-- name: await_event
-- What an attempt that waits for an event gets.
SELECT answer, result::text FROM :"schema".await_event_v1(
           $1::bigint, $2::uuid, $3::text, $4::text, $5::bigint, $6::double precision);
