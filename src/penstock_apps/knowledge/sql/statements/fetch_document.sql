-- A document was fetched: its content is a stored file now. Whether that is what is published of it already; no row if
-- this version is not wanted any more.
WITH before AS MATERIALIZED (
    SELECT d.id, d.digest, d.media_type, d.bytes, d.published, d.version FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.deleted_at IS NULL
       FOR NO KEY UPDATE
), fetched AS (
    UPDATE :"schema".document AS d
       SET digest = $4, bytes = $5, media_type = $6, stored = true, updated_at = clock_timestamp()
      FROM before AS b WHERE d.id = b.id
), counted AS (
    INSERT INTO :"schema".usage AS u (tenant, slot, bytes) SELECT $1, b.id % 16, $5 - b.bytes FROM before AS b
    ON CONFLICT (tenant, slot) DO UPDATE SET bytes = u.bytes + excluded.bytes
)
SELECT coalesce(b.published = b.version - 1 AND b.digest = $4 AND b.media_type = $6, false) AS is_same FROM before AS b
