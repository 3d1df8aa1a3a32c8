-- Their files are removed.
DELETE FROM :"schema".object AS o WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[])
