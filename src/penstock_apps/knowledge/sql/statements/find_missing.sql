-- Which of these texts the model has not seen yet.
SELECT m AS hash FROM :"schema".missing_v1($1, $2, $3) AS m
