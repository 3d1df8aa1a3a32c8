-- Some stored files of a tenant.
SELECT o.digest FROM :"schema".object AS o WHERE o.tenant = $1 LIMIT $2
