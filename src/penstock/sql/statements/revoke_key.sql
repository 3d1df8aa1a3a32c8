-- Let a key in no more: by its id, or by its name all that it stands for, replaced ones too.
WITH revoked AS (
    UPDATE :"schema".api_key AS k SET revoked_at = clock_timestamp()
     WHERE (k.id = $1::text OR k.name = $1::text) AND k.revoked_at IS NULL
    RETURNING k.id, k.name, k.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($2::text, session_user), 'revoke_key', coalesce(r.tenant, ''), r.name, jsonb_build_object('id', r.id)
      FROM revoked AS r
)
SELECT r.id FROM revoked AS r;
