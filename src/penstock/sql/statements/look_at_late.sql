-- name: look_at_late
-- The jobs that are later than they should be, the latest first, and by how many seconds.
-- $1 is how many, $2 how many of each line, of those that run and of those that are due to look at, $3 to $8
-- are filters. A line is looked at from its oldest job on, and of the lines there are the first 10,000.
WITH RECURSIVE name AS (
    (SELECT j.queue FROM :"schema".job AS j WHERE j.state = 'ready' ORDER BY j.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue FROM :"schema".job AS j
             WHERE j.state = 'ready' AND j.queue > n.queue ORDER BY j.queue LIMIT 1)
      FROM name AS n WHERE n.queue IS NOT NULL
), line AS MATERIALIZED (
    SELECT n.queue, s.lane, s.priority
      FROM name AS n CROSS JOIN LATERAL :"schema".scan_lines_v1(n.queue, '', 10000) AS s
     WHERE n.queue = coalesce($4::text, n.queue)
     LIMIT 10000
), found AS (
    SELECT f.id, f.queue, f.lane, f.state, f.task, f.tenant, f.subject, f.tags, f.run_at
      FROM line AS l
     CROSS JOIN LATERAL (
           SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
            WHERE j.state = 'ready' AND j.queue = l.queue AND j.lane = l.lane AND j.priority = l.priority
            ORDER BY j.ready_at, j.id LIMIT greatest($2::integer / greatest((SELECT count(*) FROM line), 1), $1::integer)) AS f
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'running' ORDER BY j.lease LIMIT $2::integer)
    UNION ALL
    (SELECT j.id, j.queue, j.lane, j.state, j.task, j.tenant, j.subject, j.tags, j.run_at FROM :"schema".job AS j
      WHERE j.state = 'scheduled' AND j.run_at < statement_timestamp() ORDER BY j.run_at LIMIT $2::integer)
)
SELECT f.id, d.late
  FROM found AS f
 CROSS JOIN LATERAL :"schema".late_v1(f.queue, f.lane, f.tenant, f.run_at, statement_timestamp()) AS d
 WHERE d.late IS NOT NULL
   AND ($3::text[] IS NULL OR f.state = ANY ($3::text[]))
   AND ($4::text IS NULL OR f.queue = $4::text)
   AND ($5::text IS NULL OR f.task = $5::text)
   AND ($6::text IS NULL OR f.tenant = $6::text)
   AND ($7::text IS NULL OR f.subject = $7::text)
   AND ($8::text IS NULL OR $8::text = ANY (f.tags))
 ORDER BY d.late DESC, f.id
 LIMIT $1::integer;
