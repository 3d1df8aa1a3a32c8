-- The outcomes that living workers cannot write: how many, and the class of the refusal. No row if there are none.
SELECT sum((l.info #>> '{unwritten,jobs}')::integer)::integer AS jobs, min(l.info #>> '{unwritten,error}') AS error
  FROM :"schema".lease AS l
 WHERE l.expires_at > statement_timestamp() AND jsonb_typeof(l.info -> 'unwritten') = 'object'
HAVING count(*) > 0;
