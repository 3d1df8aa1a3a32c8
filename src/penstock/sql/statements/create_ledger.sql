-- name: create_ledger
-- The list of the migrations that were applied; it outlives even the first one's way back.
CREATE TABLE IF NOT EXISTS :"schema".migration (
    number      integer     NOT NULL,
    name        text        NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT migration_pkey PRIMARY KEY (number)
)
