-- Stored files that nobody is about to use, until the end of the transaction; what is locked is in use.
SELECT o.digest FROM :"schema".object AS o
 WHERE o.tenant = $1 AND o.digest = ANY ($2::bytea[]) AND (o.holds = 0 OR o.held_until < clock_timestamp())
   FOR UPDATE SKIP LOCKED
