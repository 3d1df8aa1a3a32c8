-- Remove documents; their files.
SELECT r AS digest FROM :"schema".remove_documents_v1($1, $2) AS r
