-- A job has ended: say so of its document, if nobody has.
UPDATE :"schema".document AS d
   SET state = $2, reason = $3, error = $4, ended_at = clock_timestamp(), updated_at = clock_timestamp()
 WHERE d.job = $1 AND d.state IN ('pending', 'processing')
