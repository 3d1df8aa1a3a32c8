-- Which job brings each document in, and who asked for it ($4).
UPDATE :"schema".document AS d SET job = u.job, requested_by = $4
  FROM unnest($2::bigint[], $3::text[]) AS u (id, job)
 WHERE d.tenant = $1 AND d.id = u.id
