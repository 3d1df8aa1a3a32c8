-- name: find_text
-- Of the newest jobs that agree with a filter, so many at most, those whose arguments hold a text; and how far that was.
SELECT count(*) AS seen, min(s.id) AS last,
       coalesce(array_agg(s.id ORDER BY s.id DESC) FILTER (WHERE s.holds), '{}') AS ids
  FROM (SELECT a.id, position(lower($9::text) IN lower(a.args::text)) > 0 AS holds
          FROM :"schema".job_all AS a
         WHERE ($1::text[] IS NULL OR a.state = ANY ($1::text[]))
           AND ($2::text IS NULL OR a.queue = $2::text)
           AND ($3::text IS NULL OR a.task = $3::text)
           AND ($4::text IS NULL OR a.tenant = $4::text)
           AND ($5::text IS NULL OR a.subject = $5::text)
           AND ($6::text IS NULL OR $6::text = ANY (a.tags))
           AND ($7::bigint IS NULL OR a.id < $7::bigint)
         ORDER BY a.id DESC
         LIMIT $8::integer) AS s;
