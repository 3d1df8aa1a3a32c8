-- The best chunks for a question.
SELECT * FROM :"schema".search_v1($1, $2, $3, $4, $5, $6, $7)
