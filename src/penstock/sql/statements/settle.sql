-- name: settle
-- Write outcomes; only what was not settled comes back.
SELECT id, token, answer FROM :"schema".settle_v1(
           $1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::double precision[], $6::smallint[],
           $7::boolean[], $8::text[], $9::text[], NULL, $10::text::jsonb);
