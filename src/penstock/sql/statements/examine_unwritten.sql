-- name: examine_unwritten
-- The outcomes because of which living workers claim nothing, since the database writes none: how many, and the class
-- of the refusal. No row if there are none.
SELECT sum((l.info #>> '{unwritten,jobs}')::integer)::integer AS jobs, min(l.info #>> '{unwritten,error}') AS error
  FROM :"schema".lease AS l
 WHERE l.expires_at > statement_timestamp() AND jsonb_typeof(l.info -> 'unwritten') = 'object'
   AND NOT coalesce((l.info #>> '{unwritten,is_claiming}')::boolean, false)
HAVING count(*) > 0;
