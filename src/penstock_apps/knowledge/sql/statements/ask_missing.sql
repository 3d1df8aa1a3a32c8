-- Which of these texts the model has not seen yet, and whether anything may be done for the tenant.
SELECT a.missing, a.active FROM :"schema".ask_missing_v1($1, $2, $3) AS a
