-- Note a login that was refused; a name that nobody has is left out, it may be a password.
INSERT INTO :"schema".audit (actor, action, target, detail)
SELECT coalesce(p.name, 'unknown'), 'login_failed', p.name, jsonb_build_object('address', $2::text)
  FROM (VALUES (1)) AS once LEFT JOIN :"schema".person AS p ON p.name = $1::text;
