-- Files that were stored longer ago than their tenant keeps them: days of its own, or else $1. 0 is for ever.
SELECT o.tenant, o.digest
  FROM :"schema".object AS o
  LEFT JOIN :"schema".tenant AS t ON t.tenant = o.tenant
 CROSS JOIN LATERAL (SELECT coalesce((t.settings->>'raw_days')::double precision, $1::double precision) AS days) AS k
 WHERE k.days > 0
   AND greatest(o.created_at, o.held_until - interval '1 hour') < clock_timestamp() - k.days * interval '1 day'
   AND NOT EXISTS (SELECT FROM :"schema".document AS d
                    WHERE d.tenant = o.tenant AND d.digest = o.digest AND d.stored AND d.state IN ('pending', 'processing'))
 ORDER BY o.created_at
 LIMIT $2
