-- Move what settles said about batches into their counts; finish those that are over.
SELECT :"schema".fold_v1($1::integer);
