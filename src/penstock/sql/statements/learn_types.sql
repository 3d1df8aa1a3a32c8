-- name: learn_types
-- Every array type that the queue's statements use and a driver must ask the server about first.
SELECT NULL::boolean[], NULL::bytea[], NULL::double precision[], NULL::smallint[], NULL::integer[],
       NULL::bigint[], NULL::timestamptz[], NULL::uuid[]
