-- Forget how a document was cut for an edition.
DELETE FROM :"schema".draft AS d WHERE d.tenant = $1 AND d.document = $2 AND d.edition = $3
