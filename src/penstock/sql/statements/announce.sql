-- name: announce
-- Tell workers of lines that got jobs some seconds ago, and the promoter of the next due time.
SELECT :"schema".notify_ready_v1(l.queue, l.lane, l.priority, clock_timestamp() - make_interval(secs => $4))
  FROM unnest($1::text[], $2::text[], $3::smallint[]) AS l (queue, lane, priority);
