-- How many chunks an edition ($1) has, counted up to a number ($2).
SELECT count(*) FROM (SELECT FROM :"schema".chunk AS c WHERE c.edition = $1 LIMIT $2) AS counted
