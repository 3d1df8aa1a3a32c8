-- Mark documents and their attachments as deleted: nobody sees them any more, and a job removes the rest later. The
-- documents are locked, so that nobody attaches anything meanwhile.
WITH RECURSIVE doomed AS (
    SELECT d.id FROM :"schema".document AS d WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL
    UNION
    SELECT d.id FROM doomed AS p JOIN :"schema".document AS d ON d.parent = p.id
     WHERE d.tenant = $1 AND d.deleted_at IS NULL
)
UPDATE :"schema".document AS d SET deleted_at = clock_timestamp()
 WHERE d.tenant = $1 AND d.id IN (SELECT id FROM doomed) AND d.deleted_at IS NULL
RETURNING d.id, d.job
