-- A tenant has bases, a base has sources, a source has documents, and a document has chunks. Every row names its tenant,
-- which is all that row level security looks at. There are no foreign keys: what is deleted is removed in bounded pieces,
-- not in one long transaction.

CREATE TABLE :"schema".tenant (
    tenant      text        NOT NULL,
    active      boolean     NOT NULL DEFAULT true,
    settings    jsonb       NOT NULL DEFAULT '{}',
    deleted_at  timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT tenant_pkey PRIMARY KEY (tenant)
);

-- What a tenant has is the sum of 16 rows, so that transactions that count at the same time seldom wait for each other.
CREATE TABLE :"schema".usage (
    tenant     text     NOT NULL,
    slot       smallint NOT NULL,
    documents  bigint   NOT NULL DEFAULT 0,
    bytes      bigint   NOT NULL DEFAULT 0,
    chunks     bigint   NOT NULL DEFAULT 0,
    tokens     bigint   NOT NULL DEFAULT 0,
    CONSTRAINT usage_pkey PRIMARY KEY (tenant, slot)
) WITH (fillfactor = 50);

CREATE TABLE :"schema".base (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant      text        NOT NULL,
    name        text        NOT NULL,
    language    text        NOT NULL DEFAULT 'english',
    edition     bigint,                 -- that is searched
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at  timestamptz,
    CONSTRAINT base_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX base_name ON :"schema".base (tenant, name) WHERE deleted_at IS NULL;

-- How the documents of a base are cut and embedded. New settings make a new edition, built beside the live one.
CREATE TABLE :"schema".edition (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant      text        NOT NULL,
    base        bigint      NOT NULL,
    settings    jsonb       NOT NULL,
    embedder    text        NOT NULL,   -- vectors of one embedder can be compared and reused
    dimensions  integer     NOT NULL,
    state       text        NOT NULL DEFAULT 'live',
    batch       text,                   -- of the jobs that build it
    error       text,                   -- why it is not complete
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT edition_pkey PRIMARY KEY (id),
    CONSTRAINT edition_state CHECK (state IN ('building', 'live', 'retired'))
);
CREATE INDEX edition_base ON :"schema".edition (base);
CREATE INDEX edition_state ON :"schema".edition (state) WHERE state <> 'live';
CREATE INDEX edition_embedder ON :"schema".edition (tenant, embedder);

CREATE TABLE :"schema".source (
    id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant      text        NOT NULL,
    base        bigint      NOT NULL,
    kind        text        NOT NULL,
    name        text        NOT NULL,
    key         text,                   -- a folder or URL, by which it is found again
    batch       text,                   -- the newest
    requested_by text,                  -- who asked for the newest batch
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    deleted_at  timestamptz,
    CONSTRAINT source_pkey PRIMARY KEY (id),
    CONSTRAINT source_kind CHECK (kind IN ('files', 'url', 'text', 'site'))
);
CREATE UNIQUE INDEX source_key ON :"schema".source (base, kind, key) WHERE deleted_at IS NULL;
CREATE INDEX source_open ON :"schema".source (id) WHERE ended_at IS NULL AND batch IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX source_base ON :"schema".source (base, id);
CREATE INDEX source_tenant ON :"schema".source (tenant, id);

-- A stored file, named by its content. Its row is written before the file is stored, and removed after the file.
CREATE TABLE :"schema".object (
    tenant      text        NOT NULL,
    digest      bytea       NOT NULL,
    name        text        NOT NULL,
    bytes       bigint      NOT NULL,
    holds       integer     NOT NULL DEFAULT 0,   -- uploads under way
    held_until  timestamptz NOT NULL DEFAULT '-infinity',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT object_pkey PRIMARY KEY (tenant, digest)
);
CREATE INDEX object_created ON :"schema".object (created_at);

CREATE TABLE :"schema".document (
    id           bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant       text        NOT NULL,
    base         bigint      NOT NULL,
    source       bigint      NOT NULL,
    path         text        NOT NULL,
    version      integer     NOT NULL DEFAULT 1,  -- the newest
    published    integer,                         -- the version that searches find
    state        text        NOT NULL DEFAULT 'pending',
    reason       text,
    error        text,
    media_type   text,
    bytes        bigint      NOT NULL DEFAULT 0,
    digest       bytea,                           -- of the file, which may be removed already
    stored       boolean     NOT NULL DEFAULT true,
    url          text,                            -- of a page: where it is fetched from
    parent       bigint,                          -- the mail that it is attached to
    attached_to  text,                            -- the title of that mail
    depth        integer     NOT NULL DEFAULT 0,  -- how many mails it is nested in
    job          text,
    batch        text,
    requested_by text,                            -- who asked for this version
    priority     integer     NOT NULL DEFAULT 0,  -- of its jobs
    kind         text,
    title        text,
    pages        integer,
    chunks       integer     NOT NULL DEFAULT 0,
    tokens       bigint      NOT NULL DEFAULT 0,
    embedded     integer     NOT NULL DEFAULT 0,  -- how many of the chunks were new to the model
    tags         text[]      NOT NULL DEFAULT '{}',
    metadata     jsonb       NOT NULL DEFAULT '{}',
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    deleted_at   timestamptz,
    CONSTRAINT document_pkey PRIMARY KEY (id),
    CONSTRAINT document_state CHECK (state IN ('pending', 'processing', 'completed', 'skipped', 'failed', 'cancelled'))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX document_path ON :"schema".document (source, path) WHERE deleted_at IS NULL;
CREATE INDEX document_job ON :"schema".document (job) WHERE state IN ('pending', 'processing');
CREATE INDEX document_parent ON :"schema".document (parent) WHERE parent IS NOT NULL;
CREATE INDEX document_source ON :"schema".document (source);
CREATE INDEX document_deleted ON :"schema".document (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX document_base ON :"schema".document (base, created_at);
CREATE INDEX document_tenant ON :"schema".document (tenant, id);
CREATE INDEX document_batch ON :"schema".document (batch) WHERE state IN ('pending', 'processing', 'skipped');
CREATE INDEX document_digest ON :"schema".document (tenant, digest);

-- How many documents a source has in each state: the tally and its changes, which are folded into it now and then.
CREATE TABLE :"schema".tally (
    tenant  text   NOT NULL,
    base    bigint NOT NULL,
    source  bigint NOT NULL,
    state   text   NOT NULL,
    number  bigint NOT NULL,
    CONSTRAINT tally_pkey PRIMARY KEY (source, state)
) WITH (fillfactor = 50);
CREATE INDEX tally_base ON :"schema".tally (base);
CREATE INDEX tally_tenant ON :"schema".tally (tenant);

CREATE TABLE :"schema".tally_change (
    tenant  text   NOT NULL,
    base    bigint NOT NULL,
    source  bigint NOT NULL,
    state   text   NOT NULL,
    number  bigint NOT NULL
);
CREATE INDEX tally_change_source ON :"schema".tally_change (source);
CREATE INDEX tally_change_base ON :"schema".tally_change (base);
CREATE INDEX tally_change_tenant ON :"schema".tally_change (tenant);

-- A piece of text that searches find. An edition has it once, however many documents hold it. `words` has the edition as
-- a word, so that the index is read for that edition alone.
CREATE TABLE :"schema".chunk (
    id         bigint  NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant     text    NOT NULL,
    edition    bigint  NOT NULL,
    hash       bytea   NOT NULL,   -- of exactly the text that was embedded
    tokens     integer NOT NULL,
    heading    text    NOT NULL,
    text       text    NOT NULL,
    embedding  halfvec NOT NULL,
    words      tsvector NOT NULL,
    CONSTRAINT chunk_pkey PRIMARY KEY (id)
);
-- Vectors are stored in the row if they fit, as an exact search reads them all.
ALTER TABLE :"schema".chunk ALTER COLUMN embedding SET STORAGE MAIN;
CREATE UNIQUE INDEX chunk_hash ON :"schema".chunk (edition, hash);
-- Every search reads the pending list of the index, so it is kept short.
CREATE INDEX chunk_words ON :"schema".chunk USING gin (words) WITH (gin_pending_list_limit = 256);

-- A place in a document at which a chunk stands.
CREATE TABLE :"schema".passage (
    tenant    text    NOT NULL,
    document  bigint  NOT NULL,
    edition   bigint  NOT NULL,
    position  integer NOT NULL,
    chunk     bigint  NOT NULL,
    page      integer,
    CONSTRAINT passage_pkey PRIMARY KEY (document, edition, position)
);
CREATE INDEX passage_chunk ON :"schema".passage (chunk);

-- A text that waits for its vector, from a call to the model that many documents share.
CREATE TABLE :"schema".draft (
    tenant    text    NOT NULL,
    document  bigint  NOT NULL,
    edition   bigint  NOT NULL,
    version   integer NOT NULL,
    attempt   integer NOT NULL,   -- of the job that wrote it: calls for an older attempt find no texts
    position  integer NOT NULL,
    hash      bytea   NOT NULL,
    tokens    integer NOT NULL,
    heading   text    NOT NULL,
    text      text    NOT NULL,
    page      integer,
    error     text,               -- why it will have no vector
    CONSTRAINT draft_pkey PRIMARY KEY (document, edition, position)
);
CREATE INDEX draft_hash ON :"schema".draft (edition, hash);

-- A vector that is paid for, but not published yet.
CREATE TABLE :"schema".vector (
    tenant     text    NOT NULL,
    embedder   text    NOT NULL,
    hash       bytea   NOT NULL,
    embedding  halfvec NOT NULL,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT vector_pkey PRIMARY KEY (tenant, embedder, hash)
);
CREATE INDEX vector_made ON :"schema".vector (made_at);

\ir ../functions/counts/count_documents_v1.sql
CREATE TRIGGER document_added AFTER INSERT ON :"schema".document
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION :"schema".count_documents_v1();
CREATE TRIGGER document_changed AFTER UPDATE ON :"schema".document
    REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION :"schema".count_documents_v1();
CREATE TRIGGER document_removed AFTER DELETE ON :"schema".document
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION :"schema".count_documents_v1();

\ir ../functions/counts/fold_tallies_v1.sql

\ir ../functions/documents/begin_document_v1.sql
\ir ../functions/documents/publish_v1.sql
\ir ../functions/documents/remove_documents_v1.sql

\ir ../functions/chunks/missing_v1.sql
\ir ../functions/chunks/ask_missing_v1.sql
\ir ../functions/chunks/keep_vectors_v1.sql
\ir ../functions/chunks/remove_chunks_v1.sql
\ir ../functions/chunks/sweep_chunks_v1.sql

\ir ../functions/index/describe_index_v1.sql
\ir ../functions/index/make_index_v1.sql
\ir ../functions/index/drop_index_v1.sql

\ir ../functions/search/search_place_v1.sql
\ir ../functions/search/search_admits_v1.sql
\ir ../functions/search/search_strict_v1.sql
\ir ../functions/search/search_highlight_v1.sql
\ir ../functions/search/search_allowed_v1.sql
\ir ../functions/search/search_scope_v1.sql
\ir ../functions/search/search_exact_v1.sql
\ir ../functions/search/search_index_v1.sql
\ir ../functions/search/search_words_v1.sql
\ir ../functions/search/search_v1.sql
