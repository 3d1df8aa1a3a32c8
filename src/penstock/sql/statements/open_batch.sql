-- name: open_batch
-- Begin a batch: a place for jobs to belong to, open until it is closed. Who began it ($5) is noted, if it is said.
WITH made AS (
    INSERT INTO :"schema".batch (tenant, name, callbacks, meta)
    VALUES ($1::text, $2::text, $3::text::jsonb, $4::text::jsonb)
    RETURNING id, tenant
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($5::text, 'open_batch', m.tenant, m.id::text, NULL) FROM made AS m WHERE $5::text IS NOT NULL
)
SELECT m.id FROM made AS m LEFT JOIN noted ON true;
