-- name: look_at_limits
-- Limits, and every key under them that workers hold or want slots of, or that has a bucket: those that hold up
-- jobs first. $1 are the keys to look at, NULL for all; $2 how many; $3 how many lines of ready jobs to look
-- through, and $4 how many jobs to count in them, if all are looked at: a worker does not ask for a limit of 0.
-- A page begins behind the key $5, in the order of this moment.
-- Of the rules for a key its own comes first, then the longest pattern: see limit_v1.
WITH RECURSIVE pattern AS MATERIALIZED (
    SELECT s.key, left(s.key, -1) AS prefix FROM :"schema".limit_setting AS s WHERE right(s.key, 1) = '*'
), name AS (
    (SELECT j.queue FROM :"schema".job AS j
      WHERE j.state = 'ready' AND $1::text[] IS NULL AND EXISTS (SELECT FROM :"schema".limit_setting)
      ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lines_v1(n.queue, '', $3::integer + 1) AS s
     WHERE n.queue IS NOT NULL
     LIMIT $3::integer + 1
), lane AS MATERIALIZED (
    SELECT l.queue, l.lane, sum(count(*)) OVER () > $3::integer AS is_cut,
           greatest($4::integer / count(*) OVER (), 1) AS most
      FROM line AS l GROUP BY l.queue, l.lane
), ready AS MATERIALIZED (
    SELECT l.queue, l.lane, least(f.jobs, l.most) AS jobs, f.jobs > l.most OR l.is_cut AS is_cut
      FROM lane AS l
     CROSS JOIN LATERAL (
           SELECT count(*) AS jobs
             FROM (SELECT FROM :"schema".job AS j
                    WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane
                    ORDER BY j.priority DESC, j.ready_at, j.id LIMIT l.most + 1) AS few) AS f
), kept_to AS MATERIALIZED (
    SELECT r.queue, r.lane, k.key
      FROM ready AS r
     CROSS JOIN LATERAL (
           VALUES ('queue:' || r.queue), ('lane:' || r.queue || ':' || split_part(r.lane, E'\x1f', 1))
           UNION SELECT unnest((string_to_array(r.lane, E'\x1f'))[2:])) AS k (key)
), held AS (
    SELECT g.key, sum(g.slots)::integer AS granted, sum(greatest(g.wanted - g.slots, 0))::integer AS wanting
      FROM :"schema"."grant" AS g
      JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
     WHERE $1::text[] IS NULL OR g.key = ANY ($1::text[])
     GROUP BY g.key
), known AS (
    SELECT s.key, true AS is_shown FROM :"schema".limit_setting AS s WHERE $1::text[] IS NULL
    UNION ALL SELECT h.key, true FROM held AS h
    UNION ALL SELECT b.key, true FROM :"schema".bucket AS b WHERE $1::text[] IS NULL
    UNION ALL SELECT k.key, true FROM unnest($1::text[]) AS k (key)
    UNION ALL SELECT k.key, false FROM kept_to AS k
), ruled AS MATERIALIZED (
    SELECT k.key, k.is_shown, coalesce(s.key, p.key) AS rule
      FROM (SELECT u.key, bool_or(u.is_shown) AS is_shown FROM known AS u GROUP BY u.key) AS k
      LEFT JOIN :"schema".limit_setting AS s ON s.key = k.key
      LEFT JOIN LATERAL (
           SELECT t.key FROM pattern AS t WHERE starts_with(k.key, t.prefix)
            ORDER BY length(t.key) DESC LIMIT 1) AS p ON s.key IS NULL
), waiting AS (
    -- Those of a pattern wait for it too: each line counts once, whatever number of its keys falls under it.
    SELECT u.key, sum(r.jobs)::bigint AS ready, bool_or(r.is_cut) AS is_cut
      FROM (SELECT t.queue, t.lane, t.key FROM kept_to AS t
            UNION SELECT t.queue, t.lane, k.rule FROM kept_to AS t JOIN ruled AS k ON k.key = t.key) AS u
      JOIN ready AS r ON r.queue = u.queue AND r.lane = u.lane
     GROUP BY u.key
), state AS (
    SELECT k.key, k.rule, s.slots, s.rate, s.burst, coalesce(h.granted, 0) AS granted,
           coalesce(h.wanting, 0) AS wanting, coalesce(w.ready, 0) AS ready, coalesce(w.is_cut, false) AS is_cut,
           CASE WHEN b.closed_until > statement_timestamp() THEN b.closed_until END AS closed_until,
           CASE WHEN s.rate IS NOT NULL AND right(k.key, 1) <> '*' THEN least(s.burst, coalesce(
               b.level + s.rate * greatest(extract(epoch FROM statement_timestamp() - b.filled_at), 0), s.burst))
           END::double precision AS level
      FROM ruled AS k
      LEFT JOIN :"schema".limit_setting AS s ON s.key = k.rule
      LEFT JOIN held AS h ON h.key = k.key
      LEFT JOIN waiting AS w ON w.key = k.key
      LEFT JOIN :"schema".bucket AS b ON b.key = k.key
     WHERE k.is_shown AND (k.rule IS NOT NULL OR h.key IS NOT NULL AND $1::text[] IS NULL)
), ranked AS MATERIALIZED (
    SELECT c.*, count(*) OVER () AS keys,
           row_number() OVER (
               ORDER BY c.wanting > 0 OR c.ready > 0 AND (
                            c.granted >= c.slots AND (c.slots = 0 OR right(c.key, 1) <> '*')
                            OR c.closed_until IS NOT NULL OR c.level < 1) IS TRUE DESC,
                        c.closed_until IS NOT NULL DESC, c.granted > 0 DESC, c.key) AS place
      FROM state AS c
), chosen AS (
    SELECT r.* FROM ranked AS r
     WHERE $5::text IS NULL OR r.place > (SELECT a.place FROM ranked AS a WHERE a.key = $5::text)
     ORDER BY r.place
     LIMIT $2::integer
)
SELECT c.key, c.rule, c.slots, c.rate, c.burst, c.granted, c.wanting, c.closed_until, c.keys, c.level,
       CASE WHEN $1::text[] IS NULL THEN c.ready END AS ready, c.is_cut, coalesce(w.workers, '[]')::text AS workers
  FROM chosen AS c
 CROSS JOIN LATERAL (
       SELECT jsonb_agg(jsonb_build_object('worker', f.worker, 'slots', f.slots, 'wanted', f.wanted)
                        ORDER BY f.slots DESC, f.worker) AS workers
         FROM (SELECT l.worker, g.slots, g.wanted
                 FROM :"schema"."grant" AS g
                 JOIN :"schema".lease AS l ON l.id = g.lease AND l.expires_at > statement_timestamp()
                WHERE g.key = c.key
                ORDER BY g.slots DESC, l.worker LIMIT 100) AS f) AS w
 ORDER BY c.place;
