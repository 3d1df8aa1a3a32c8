-- Nothing is found of a document any more: its newest version ($3) has no text. The document is locked; its chunks go with
-- the next sweep unless others have them.
WITH before AS MATERIALIZED (
    SELECT d.id, d.chunks, d.tokens FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = $2 AND d.version = $3 AND d.published IS NOT NULL
), gone AS (
    DELETE FROM :"schema".passage AS p USING before AS b WHERE p.tenant = $1 AND p.document = b.id
), changed AS (
    UPDATE :"schema".document AS d
       SET published = NULL, chunks = 0, tokens = 0, embedded = 0, title = NULL, kind = NULL, pages = NULL
      FROM before AS b WHERE d.id = b.id
)
INSERT INTO :"schema".usage AS u (tenant, slot, chunks, tokens)
SELECT $1, b.id % 16, -b.chunks, -b.tokens FROM before AS b
ON CONFLICT (tenant, slot) DO UPDATE SET chunks = u.chunks + excluded.chunks, tokens = u.tokens + excluded.tokens
