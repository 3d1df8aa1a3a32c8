-- The attachments of a mail: paths and ids.
SELECT d.path, d.id FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.parent = $2 AND d.deleted_at IS NULL
