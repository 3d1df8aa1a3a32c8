-- Which job brings each document in.
UPDATE :"schema".document AS d SET job = u.job
  FROM unnest($2::bigint[], $3::text[]) AS u (id, job)
 WHERE d.tenant = $1 AND d.id = u.id
