-- Add a person; none comes back if there is one of this name.
WITH made AS (
    INSERT INTO :"schema".person (name, role, password_hash, created_by)
    VALUES ($1::text, $2::text, $3::text, coalesce($4::text, session_user))
    ON CONFLICT (name) DO NOTHING
    RETURNING name, role, created_at, created_by, disabled_at
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT m.created_by, 'add_person', m.name, jsonb_build_object('role', m.role) FROM made AS m
)
SELECT m.* FROM made AS m;
