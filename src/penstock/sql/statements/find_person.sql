-- A person who may come in.
SELECT p.name, p.role, p.password_hash FROM :"schema".person AS p WHERE p.name = $1::text AND p.disabled_at IS NULL;
