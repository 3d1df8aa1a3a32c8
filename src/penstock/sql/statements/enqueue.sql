-- name: enqueue
-- Enqueue many jobs. Returns their ids in order, and which of them were duplicates.
-- Each parameter is cast here, because drivers guess types differently, and callers change how theirs decode jsonb.
-- It returns one row with arrays: reading 100,000 rows would take a client as long as sending the jobs.
SELECT array_agg(id) AS ids, CASE WHEN bool_or(duplicate) THEN array_agg(duplicate) END AS duplicates,
       CASE WHEN bool_or(lane IS NOT NULL) THEN array_agg(lane) END AS lanes,
       CASE WHEN bool_or(lane IS NOT NULL) THEN array_agg(priority) END AS priorities
  FROM :"schema".enqueue_v1(
           $1::text[], $2::text[], $3::smallint[], $4::text[], $5::text[], $22::text[],
           $6::smallint[], $7::double precision[], $8::timestamptz[], $9::integer[], $10::double precision[],
           $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],
           $16::text[], $17::timestamptz[], $18::text[], $19::bytea[], $23::text[], $24::bigint,
           $25::bigint, $26::text[], $27::text[], $28::text[], $20::timestamptz, $21::text::jsonb);

-- name: notify_ready
-- Notify workers of lanes that got jobs some seconds ago.
SELECT :"schema".notify_ready_v1(l.queue, l.lane, l.priority, clock_timestamp() - make_interval(secs => $4))
  FROM unnest($1::text[], $2::text[], $3::smallint[]) AS l (queue, lane, priority);

-- name: notify_due
-- Notify the leader that a job is due in some seconds.
SELECT :"schema".notify_due_v1(clock_timestamp() + make_interval(secs => $1));
