-- Which job brings each document in, with what priority ($5), and who asked for it ($4).
UPDATE :"schema".document AS d SET job = u.job, requested_by = $4, priority = u.priority
  FROM unnest($2::bigint[], $3::text[], $5::integer[]) AS u (id, job, priority)
 WHERE d.tenant = $1 AND d.id = u.id
