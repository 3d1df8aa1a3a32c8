-- name: authenticate_key
-- Return a valid key to compare its secret, and whether its use has to be recorded, which is done once a minute.
SELECT k.name, k.secret_hash, k.scopes, k.tenant,
       coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true) AS is_stale
  FROM :"schema".api_key AS k
 WHERE k.id = $1::text AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());

-- name: touch_key
-- Record that a key was used, without waiting for others that record the same.
UPDATE :"schema".api_key AS k SET last_used_at = clock_timestamp()
 WHERE k.id IN (SELECT o.id FROM :"schema".api_key AS o WHERE o.id = $1::text FOR UPDATE SKIP LOCKED)
   AND coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true);

-- name: find_key
-- Return a key by its id, or by its name while it is in use.
SELECT k.id, k.name, k.scopes, k.tenant, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.replaced_by
  FROM :"schema".api_key AS k
 WHERE k.id = $1::text OR (k.name = $1::text AND k.revoked_at IS NULL AND k.replaced_by IS NULL)
 ORDER BY k.id = $1::text DESC
 LIMIT 1;

-- name: list_keys
-- List keys by name, the newest first of each name; without $1 only valid ones. A page begins after the key $2 and has up
-- to $3 keys.
SELECT k.id, k.name, k.scopes, k.tenant, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.replaced_by
  FROM :"schema".api_key AS k
 WHERE ($1::boolean OR (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())))
   AND ($2::text IS NULL OR EXISTS (
           SELECT FROM :"schema".api_key AS a
            WHERE a.id = $2::text AND (k.name > a.name OR k.name = a.name AND (
                      k.created_at < a.created_at OR k.created_at = a.created_at AND k.id > a.id))))
 ORDER BY k.name, k.created_at DESC, k.id
 LIMIT $3::integer;

-- name: create_key
-- Create a key. Returns no row if the name is in use. $6 is for how many seconds it is valid, $7 who creates it.
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

-- name: create_first_key
-- Create a key if there is neither a key nor a person. Otherwise it returns no row.
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

-- name: rotate_key
-- Replace a key ($1) by a new one with the same rights. It lives $4 seconds, or as long as the old one if that is NULL.
-- The old one stays valid for $5 seconds. With $7, the life of the last key that may create others is not shortened.
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

-- name: revoke_key
-- Revoke a key by its id, or all keys of a name, including replaced ones. With $3, the last key that may create others
-- stays; another key counts if it expires no sooner. If two admins revoke each other's keys, the locks make one of them
-- wait or fail.
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

-- name: find_person
-- Return a person who may log in.
SELECT p.name, p.role, p.password_hash FROM :"schema".person AS p WHERE p.name = $1::text AND p.disabled_at IS NULL;

-- name: list_people
-- List people by name. A page begins after the name $1 and has up to $2 people.
SELECT p.name, p.role, p.created_at, p.created_by, p.disabled_at FROM :"schema".person AS p
 WHERE $1::text IS NULL OR p.name > $1::text
 ORDER BY p.name
 LIMIT $2::integer;

-- name: add_person
-- Add a person. Returns no row if the name is taken.
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

-- name: set_person
-- Change a person's role ($2) or password ($3), or disable them ($4); what is NULL stays. A new password or disabling
-- ends all of their sessions. With $6, the last admin stays one; a key with the scope admin counts too if it never expires.
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

-- name: try_login
-- Count an attempt to log in. Returns the seconds to wait, which are 0 unless there were too many attempts.
SELECT :"schema".try_login_v1($1::bytea[], $2::integer[], $3::double precision[]) AS wait;

-- name: write_failed_login
-- Record a refused login. A name that nobody has is left out, since it may be a password.
INSERT INTO :"schema".audit (actor, action, target, detail)
SELECT coalesce(p.name, 'unknown'), 'login_failed', p.name, jsonb_build_object('address', $2::text)
  FROM (VALUES (1)) AS once LEFT JOIN :"schema".person AS p ON p.name = $1::text;

-- name: open_login
-- Open a session, and forget the attempts before it ($4). The address keeps its count minus one.
WITH forgotten AS (
    DELETE FROM :"schema".login_failure AS f WHERE f.subject = ($4::bytea[])[1]
), forgiven AS (
    UPDATE :"schema".login_failure AS f SET failures = greatest(f.failures - 1, 0), until = statement_timestamp()
     WHERE f.subject = ($4::bytea[])[2]
), swept AS (
    DELETE FROM :"schema".login AS l
     WHERE l.secret_hash IN (SELECT o.secret_hash FROM :"schema".login AS o WHERE o.expires_at < clock_timestamp()
                              ORDER BY o.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    VALUES ($2::text, 'login', $2::text, jsonb_build_object('address', $6::text))
)
INSERT INTO :"schema".login (secret_hash, person, csrf, expires_at)
VALUES ($1::bytea, $2::text, $3::text, clock_timestamp() + make_interval(secs => $5::double precision));

-- name: authenticate_login
-- Return who is logged in with a cookie, unless the session has expired or was not used for $2 seconds.
SELECT p.name, p.role, l.csrf, coalesce(l.seen_at < clock_timestamp() - interval '1 minute', true) AS is_stale
  FROM :"schema".login AS l JOIN :"schema".person AS p ON p.name = l.person AND p.disabled_at IS NULL
 WHERE l.secret_hash = $1::bytea AND l.expires_at > clock_timestamp()
   AND l.seen_at > clock_timestamp() - make_interval(secs => $2::double precision);

-- name: touch_login
-- Record that a session was used, at most once a minute.
UPDATE :"schema".login AS l SET seen_at = clock_timestamp()
 WHERE l.secret_hash IN (SELECT o.secret_hash FROM :"schema".login AS o WHERE o.secret_hash = $1::bytea FOR UPDATE SKIP LOCKED)
   AND l.seen_at < clock_timestamp() - interval '1 minute';

-- name: close_login
-- Close a session.
WITH closed AS (
    DELETE FROM :"schema".login AS l WHERE l.secret_hash = $1::bytea RETURNING l.person
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target) SELECT c.person, 'logout', c.person FROM closed AS c
)
SELECT c.person FROM closed AS c;

-- name: list_audit
-- List audit entries, newest first.
SELECT a.id, a.at, a.actor, a.action, a.tenant, a.target, a.detail::text AS detail
  FROM :"schema".audit AS a
 WHERE ($1::text IS NULL OR a.actor = $1) AND ($2::text IS NULL OR a.action = $2) AND ($3::text IS NULL OR a.target = $3)
   AND ($4::text IS NULL OR a.tenant = $4) AND ($5::timestamptz IS NULL OR a.at >= $5)
   AND ($6::bigint IS NULL OR a.id < $6)
 ORDER BY a.id DESC
 LIMIT $7;
