-- A workflow without jobs, which belongs to the tenant that is named, or to that of the transaction.
INSERT INTO :"schema".workflow (tenant, name, meta)
VALUES (coalesce(nullif($1::text, ''), nullif(current_setting('penstock.tenant', true), ''), ''), $2::text, $3::text::jsonb)
RETURNING id;
