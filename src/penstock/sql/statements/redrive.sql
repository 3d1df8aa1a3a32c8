-- Bring dead letters back.
SELECT id, answer, due FROM :"schema".redrive_v1($1::bigint[], $2::double precision, $3::timestamptz);
