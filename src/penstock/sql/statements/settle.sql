-- Write outcomes; only what was not settled comes back.
SELECT id, token, answer FROM :"schema".settle_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL, $10);
