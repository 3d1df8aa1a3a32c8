-- Set something for a tenant; what is not named stays, what is null goes back to its default.
INSERT INTO :"schema".tenant AS t (tenant, active, settings) VALUES ($1, coalesce($2, true), jsonb_strip_nulls($3::jsonb))
ON CONFLICT (tenant) DO UPDATE
   SET active = coalesce($2, t.active), settings = jsonb_strip_nulls(t.settings || $3::jsonb)
