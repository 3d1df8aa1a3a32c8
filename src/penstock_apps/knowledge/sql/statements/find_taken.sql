-- Those of some paths of a source at which documents stand that are not attached to this mail.
SELECT d.path FROM :"schema".document AS d
 WHERE d.tenant = $1 AND d.source = $2 AND d.path = ANY ($3::text[]) AND d.deleted_at IS NULL
   AND d.parent IS DISTINCT FROM $4
