-- Replace a key ($1) by a new one with the same rights and, unless $4 says for how many seconds, as long a life.
-- The old one is good for $5 seconds more. With $7, the life of the last key that may make others is not shortened.
WITH other_keys AS MATERIALIZED (
    SELECT k.id FROM :"schema".api_key AS k
     WHERE $7::boolean AND 'admin' = ANY (k.scopes) AND k.revoked_at IS NULL AND k.replaced_by IS NULL
       AND coalesce(k.expires_at, 'infinity') > clock_timestamp() AND k.id <> $1::text
       AND coalesce(k.expires_at, 'infinity') >= (
               SELECT coalesce(m.expires_at, 'infinity') FROM :"schema".api_key AS m WHERE m.id = $1::text)
       FOR UPDATE
), admins AS MATERIALIZED (
    SELECT p.name FROM :"schema".person AS p
     WHERE $7::boolean AND p.role = 'admin' AND p.disabled_at IS NULL
       FOR UPDATE
), old AS (
    UPDATE :"schema".api_key AS k
       SET replaced_by = $2::text,
           expires_at = least(k.expires_at, clock_timestamp() + make_interval(secs => $5::double precision))
      FROM :"schema".api_key AS before
     WHERE k.id = $1::text AND before.id = k.id AND k.revoked_at IS NULL AND k.replaced_by IS NULL
       AND (NOT $7::boolean OR NOT 'admin' = ANY (k.scopes) OR $4::double precision IS NULL
            OR clock_timestamp() + make_interval(secs => $4::double precision) >= coalesce(k.expires_at, 'infinity')
            OR EXISTS (SELECT FROM other_keys) OR EXISTS (SELECT FROM admins))
    RETURNING k.id, k.name, k.scopes, k.tenant, k.expires_at, before.expires_at - k.created_at AS life
), made AS (
    INSERT INTO :"schema".api_key (id, name, secret_hash, scopes, tenant, expires_at, created_by)
    SELECT $2::text, o.name, $3::bytea, o.scopes, o.tenant,
           clock_timestamp() + coalesce(make_interval(secs => $4::double precision), o.life), coalesce($6::text, session_user)
      FROM old AS o
    RETURNING id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, replaced_by
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT m.created_by, 'rotate_key', coalesce(m.tenant, ''), m.name,
           jsonb_build_object('id', m.id, 'old', o.id, 'old_expires_at', o.expires_at, 'expires_at', m.expires_at)
      FROM made AS m CROSS JOIN old AS o
)
SELECT m.* FROM made AS m;
