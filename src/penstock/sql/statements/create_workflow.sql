-- name: create_workflow
-- A workflow without jobs, which belongs to the tenant that is named, or to that of the transaction. Who started it ($4)
-- is noted, if it is said.
WITH made AS (
    INSERT INTO :"schema".workflow (tenant, name, meta)
    VALUES (coalesce(nullif($1::text, ''), nullif(current_setting('penstock.tenant', true), ''), ''), $2::text, $3::text::jsonb)
    RETURNING id, tenant
), noted AS MATERIALIZED (
    SELECT :"schema".note_v1($4::text, 'start_workflow', m.tenant, m.id::text, NULL) FROM made AS m WHERE $4::text IS NOT NULL
)
SELECT m.id FROM made AS m LEFT JOIN noted ON true;
