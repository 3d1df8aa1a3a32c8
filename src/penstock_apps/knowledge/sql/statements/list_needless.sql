-- Those of the locked files that no document needs. A statement of its own: it sees what was written before the lock.
SELECT o.digest, o.name FROM :"schema".object AS o
 WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[])
   AND NOT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = $1 AND d.digest = o.digest AND d.stored)
