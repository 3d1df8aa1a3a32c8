-- Files that no document needs and nobody is about to use: among all if they are few, or some ($1) from a random time on.
WITH first AS (
    SELECT CASE WHEN count(*) < $1 THEN 0 ELSE random() END AS start FROM (SELECT FROM :"schema".object LIMIT $1) AS few
)
SELECT n.tenant, n.digest
  FROM (SELECT o.tenant, o.digest, o.holds, o.held_until FROM :"schema".object AS o
         WHERE o.created_at >= (SELECT min(m.created_at) + f.start * (max(m.created_at) - min(m.created_at))
                                 FROM :"schema".object AS m, first AS f GROUP BY f.start)
         ORDER BY o.created_at LIMIT $1) AS n
 WHERE (n.holds = 0 OR n.held_until < clock_timestamp())
   AND NOT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = n.tenant AND d.digest = n.digest AND d.stored)
