-- Limits, and every key that workers hold or want slots of, or that has a bucket: those waited for first.
-- $1 are the keys to look at, NULL for all; $2 how many.
-- Of the rules for a key its own comes first, then the longest pattern: see limit_v1.
WITH held AS (
    SELECT g.key, sum(g.slots)::integer AS granted, sum(greatest(g.wanted - g.slots, 0))::integer AS wanting
      FROM :"schema"."grant" AS g
      JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
     WHERE $1::text[] IS NULL OR g.key = ANY ($1::text[])
     GROUP BY g.key
), known AS (
    SELECT s.key FROM :"schema".limit_setting AS s WHERE $1::text[] IS NULL
    UNION SELECT h.key FROM held AS h
    UNION SELECT b.key FROM :"schema".bucket AS b WHERE $1::text[] IS NULL
    UNION SELECT k.key FROM unnest($1::text[]) AS k (key)
), chosen AS (
    SELECT k.key, coalesce(h.granted, 0) AS granted, coalesce(h.wanting, 0) AS wanting, b.level, b.filled_at,
           CASE WHEN b.closed_until > statement_timestamp() THEN b.closed_until END AS closed_until,
           count(*) OVER () AS keys
      FROM known AS k
      LEFT JOIN held AS h ON h.key = k.key
      LEFT JOIN :"schema".bucket AS b ON b.key = k.key
     ORDER BY h.wanting > 0 DESC NULLS LAST, b.closed_until > statement_timestamp() DESC NULLS LAST,
              coalesce(h.granted, 0) > 0 DESC, k.key
     LIMIT $2::integer
)
SELECT c.key, r.rule, r.slots, r.rate, r.burst, c.granted, c.wanting, c.closed_until, c.keys,
       CASE WHEN r.rate IS NOT NULL AND right(c.key, 1) <> '*' THEN least(r.burst, coalesce(
           c.level + r.rate * greatest(extract(epoch FROM statement_timestamp() - c.filled_at), 0), r.burst))
       END::double precision AS level,
       coalesce(w.workers, '[]')::text AS workers
  FROM chosen AS c
  LEFT JOIN LATERAL (
       SELECT s.key AS rule, s.slots, s.rate, s.burst
         FROM :"schema".limit_setting AS s
        WHERE s.key = c.key OR right(s.key, 1) = '*' AND starts_with(c.key, left(s.key, -1))
        ORDER BY s.key = c.key DESC, length(s.key) DESC
        LIMIT 1) AS r ON true
 CROSS JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('worker', f.worker, 'slots', f.slots, 'wanted', f.wanted)
                        ORDER BY f.slots DESC, f.worker) AS workers
         FROM (SELECT l.worker, g.slots, g.wanted
                 FROM :"schema"."grant" AS g
                 JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
                WHERE g.key = c.key
                ORDER BY g.slots DESC, l.worker LIMIT 100) AS f) AS w
 WHERE $1::text[] IS NULL OR r.rule IS NOT NULL
 ORDER BY c.wanting > 0 DESC, c.closed_until IS NOT NULL DESC, c.granted > 0 DESC, c.key;
