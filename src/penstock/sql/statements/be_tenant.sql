-- name: be_tenant
-- Until the end of the transaction jobs belong to this tenant, and under row level security no other is seen.
SELECT set_config('penstock.tenant', $1::text, true);
