-- Who may use the service: keys of programs, people and their logins, and how often somebody failed to log in.

-- A program's key. The id is public and part of the key; of its secret only the hash is kept, which a random one of
-- 256 bits needs no salt for. A key that replaced another lives beside it until the older one expires.
CREATE TABLE :"schema".api_key (
    id           text COLLATE "C" NOT NULL,
    name         text COLLATE "C" NOT NULL,
    secret_hash  bytea       NOT NULL,
    scopes       text[]      NOT NULL,
    tenant       text COLLATE "C",
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by   text        NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    replaced_by  text COLLATE "C",
    CONSTRAINT api_key_pkey PRIMARY KEY (id),
    CONSTRAINT api_key_id_is_a_word CHECK (id ~ '^[0-9a-z]{8,32}$'),
    CONSTRAINT api_key_name_not_empty CHECK (name <> ''),
    CONSTRAINT api_key_secret_hash_is_sha256 CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT api_key_scopes_are_known CHECK (scopes <@ '{read,enqueue,operate,admin,on_behalf}' AND cardinality(scopes) > 0),
    CONSTRAINT api_key_tenant_not_empty CHECK (tenant <> ''),
    -- What admins do is about all tenants.
    CONSTRAINT api_key_admin_has_no_tenant CHECK (tenant IS NULL OR NOT 'admin' = ANY (scopes))
);
-- A name means one key, so that the audit does.
CREATE UNIQUE INDEX api_key_name ON :"schema".api_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;

CREATE TABLE :"schema".person (
    name          text COLLATE "C" NOT NULL,
    role          text        NOT NULL,
    password_hash text        NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by    text        NOT NULL,
    disabled_at   timestamptz,
    CONSTRAINT person_pkey PRIMARY KEY (name),
    -- A colon is what tells a key's name from a person's.
    CONSTRAINT person_name_is_a_word CHECK (name ~ '^[^[:space:][:cntrl:]:]{1,100}$'),
    CONSTRAINT person_role_is_known CHECK (role IN ('viewer', 'operator', 'admin'))
);

-- A person in a browser: the hash of the cookie's secret, and what proves that a request comes from our own page.
CREATE TABLE :"schema".login (
    secret_hash bytea       NOT NULL,
    person      text COLLATE "C" NOT NULL,
    csrf        text        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT login_pkey PRIMARY KEY (secret_hash),
    CONSTRAINT login_secret_hash_is_sha256 CHECK (octet_length(secret_hash) = 32)
);
CREATE INDEX login_person ON :"schema".login (person);
CREATE INDEX login_expiry ON :"schema".login (expires_at);

-- Attempts to log in that have not succeeded, by name and by address; as hashes, because what people type as their
-- name may be their password. Until `until` no other attempt is looked at.
CREATE TABLE :"schema".login_failure (
    subject  bytea       NOT NULL,
    failures integer     NOT NULL DEFAULT 0,
    last_at  timestamptz NOT NULL,
    until    timestamptz NOT NULL,
    CONSTRAINT login_failure_pkey PRIMARY KEY (subject)
);
CREATE INDEX login_failure_age ON :"schema".login_failure (last_at);

CREATE INDEX audit_actor ON :"schema".audit (actor, id);
CREATE INDEX audit_target ON :"schema".audit (target, id) WHERE target IS NOT NULL;

\ir ../functions/try_login_v1.sql
