-- Begin a batch: a place for jobs to belong to, open until it is closed.
INSERT INTO :"schema".batch (tenant, name, callbacks, meta)
VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb)
RETURNING id;
