-- A tenant and its bases are not there any more; what is left of them is removed after this.
WITH marked AS (
    INSERT INTO :"schema".tenant AS t (tenant, deleted_at) VALUES ($1, clock_timestamp())
    ON CONFLICT (tenant) DO UPDATE SET deleted_at = coalesce(t.deleted_at, clock_timestamp())
)
UPDATE :"schema".base AS b SET deleted_at = clock_timestamp() WHERE b.tenant = $1 AND b.deleted_at IS NULL
