-- name: fire
-- Fire schedules by the ticks that were worked out for them.
SELECT name, answer FROM :"schema".fire_v1($1::text::jsonb);
