-- name: unserved
-- The queues with jobs that have been ready for so many seconds, and that no living worker serves.
SELECT queue, seconds FROM :"schema".unserved_v1($1::double precision);
