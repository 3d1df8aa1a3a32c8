-- Vectors that are paid for, until they are published.
SELECT :"schema".keep_vectors_v1($1, $2, $3, $4)
