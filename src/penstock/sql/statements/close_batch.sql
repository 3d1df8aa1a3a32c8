-- Let no job be added to a batch any more; with $2 as one that is given up.
SELECT c.answer FROM :"schema".close_batch_v1(ARRAY[$1::bigint], $2::boolean) AS c;
