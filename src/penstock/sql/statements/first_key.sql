-- Make a key where there is neither a key nor a person; none comes back if there is.
WITH made AS (
    INSERT INTO :"schema".api_key (id, name, secret_hash, scopes, created_by)
    SELECT $1::text, $2::text, $3::bytea, '{read,enqueue,operate,admin}', session_user
     WHERE NOT EXISTS (SELECT FROM :"schema".api_key) AND NOT EXISTS (SELECT FROM :"schema".person)
    ON CONFLICT (name) WHERE revoked_at IS NULL AND replaced_by IS NULL DO NOTHING
    RETURNING id, name
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT session_user, 'create_key', m.name, jsonb_build_object('id', m.id, 'first', true) FROM made AS m
)
SELECT m.id FROM made AS m;
