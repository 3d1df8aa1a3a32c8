-- These files are not kept any more; the texts of their documents are.
UPDATE :"schema".document AS d SET stored = false WHERE d.tenant = $1 AND d.digest = ANY ($2::bytea[]) AND d.stored
