-- Change a person's role ($2) or password ($3), or disable them ($4); what is NULL stays. A new password or disabling
-- ends all of their sessions. With $6, the last admin stays one; a key with the scope admin counts if it never expires.
WITH admin_keys AS MATERIALIZED (
    SELECT k.id FROM :"schema".api_key AS k
     WHERE $6::boolean AND 'admin' = ANY (k.scopes) AND k.revoked_at IS NULL AND k.replaced_by IS NULL
       AND k.expires_at IS NULL
       FOR UPDATE
), other_admins AS MATERIALIZED (
    SELECT p.name FROM :"schema".person AS p
     WHERE $6::boolean AND p.role = 'admin' AND p.disabled_at IS NULL AND p.name <> $1::text
       FOR UPDATE
), changed AS (
    UPDATE :"schema".person AS p
       SET role = coalesce($2::text, p.role), password_hash = coalesce($3::text, p.password_hash),
           disabled_at = CASE $4::boolean WHEN true THEN coalesce(p.disabled_at, clock_timestamp()) WHEN false THEN NULL
                                          ELSE p.disabled_at END
     WHERE p.name = $1::text
       AND (NOT $6::boolean OR p.role <> 'admin' OR p.disabled_at IS NOT NULL
            OR (coalesce($2::text, 'admin') = 'admin' AND NOT coalesce($4::boolean, false))
            OR EXISTS (SELECT FROM admin_keys) OR EXISTS (SELECT FROM other_admins))
    RETURNING p.name, p.role, p.created_at, p.created_by, p.disabled_at
), left_out AS (
    DELETE FROM :"schema".login AS l USING changed AS c
     WHERE l.person = c.name AND ($3::text IS NOT NULL OR $4::boolean)
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($5::text, session_user), 'set_person', c.name,
           jsonb_strip_nulls(jsonb_build_object('role', $2::text, 'disabled', $4::boolean,
                                                'password', CASE WHEN $3::text IS NOT NULL THEN 'changed' END))
      FROM changed AS c
)
SELECT c.* FROM changed AS c;
