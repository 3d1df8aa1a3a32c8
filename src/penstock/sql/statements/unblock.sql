-- Let blocked jobs run now, without what they wait for.
SELECT id, answer FROM :"schema".unblock_v1($1::bigint[]);
