-- Mark documents and their attachments as deleted: nobody sees them any more, and a job removes the rest later. The
-- documents are locked, so that nobody attaches anything meanwhile. With a mail ($3), only those attached to it still. What is
-- uploaded to the path of an attachment meanwhile has another parent by then, and stays.
WITH RECURSIVE doomed AS (
    SELECT d.id, d.parent FROM :"schema".document AS d
     WHERE d.tenant = $1 AND d.id = ANY ($2::bigint[]) AND d.deleted_at IS NULL AND ($3::bigint IS NULL OR d.parent = $3)
    UNION
    SELECT d.id, d.parent FROM doomed AS p JOIN :"schema".document AS d ON d.parent = p.id
     WHERE d.tenant = $1 AND d.deleted_at IS NULL
)
UPDATE :"schema".document AS d SET deleted_at = clock_timestamp()
  FROM doomed AS p
 WHERE d.tenant = $1 AND d.id = p.id AND d.parent IS NOT DISTINCT FROM p.parent AND d.deleted_at IS NULL
RETURNING d.id, d.job
