-- Make a key; none comes back if the name is in use. $6 is for how many seconds it is good, $7 who makes it.
WITH made AS (
    INSERT INTO :"schema".api_key (id, name, secret_hash, scopes, tenant, expires_at, created_by)
    VALUES ($1::text, $2::text, $3::bytea, $4::text[], $5::text, clock_timestamp() + make_interval(secs => $6::double precision),
            coalesce($7::text, session_user))
    ON CONFLICT (name) WHERE revoked_at IS NULL AND replaced_by IS NULL DO NOTHING
    RETURNING id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, replaced_by
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT m.created_by, 'create_key', coalesce(m.tenant, ''), m.name,
           jsonb_build_object('id', m.id, 'scopes', m.scopes, 'expires_at', m.expires_at)
      FROM made AS m
)
SELECT m.* FROM made AS m;
