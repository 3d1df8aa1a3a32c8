-- Revoke a key by its id, or all keys of a name, replaced ones too. With $3, the last key that may make others stays;
-- another counts if it expires no sooner. Of two admins who revoke each other's keys the locks make one wait or fail.
WITH meant AS (
    SELECT max(coalesce(k.expires_at, 'infinity')) AS expires_at FROM :"schema".api_key AS k
     WHERE (k.id = $1::text OR k.name = $1::text) AND k.revoked_at IS NULL
), other_keys AS MATERIALIZED (
    SELECT k.id FROM :"schema".api_key AS k
     WHERE $3::boolean AND 'admin' = ANY (k.scopes) AND k.revoked_at IS NULL AND k.replaced_by IS NULL
       AND coalesce(k.expires_at, 'infinity') > clock_timestamp() AND k.id <> $1::text AND k.name <> $1::text
       AND coalesce(k.expires_at, 'infinity') >= (SELECT m.expires_at FROM meant AS m)
       FOR UPDATE
), admins AS MATERIALIZED (
    SELECT p.name FROM :"schema".person AS p
     WHERE $3::boolean AND p.role = 'admin' AND p.disabled_at IS NULL
       FOR UPDATE
), revoked AS (
    UPDATE :"schema".api_key AS k SET revoked_at = clock_timestamp()
     WHERE (k.id = $1::text OR k.name = $1::text) AND k.revoked_at IS NULL
       AND (NOT $3::boolean OR NOT 'admin' = ANY (k.scopes) OR k.expires_at <= clock_timestamp()
            OR EXISTS (SELECT FROM other_keys) OR EXISTS (SELECT FROM admins))
    RETURNING k.id, k.name, k.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($2::text, session_user), 'revoke_key', coalesce(r.tenant, ''), r.name, jsonb_build_object('id', r.id)
      FROM revoked AS r
)
SELECT r.id FROM revoked AS r;
