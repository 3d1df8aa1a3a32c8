-- name: lose
-- For tests: take a job away from the attempt that runs it, as if its worker had been lost in it.
SELECT l.id, l.lost
  FROM :"schema".job AS j
 CROSS JOIN LATERAL :"schema".lose_v1(
       ARRAY[j.id], ARRAY[j.token], 'lost', 'WorkerLost',
       'A test took the attempt away from its worker.', true, statement_timestamp()) AS l
 WHERE j.id = $1 AND j.state = 'running';
