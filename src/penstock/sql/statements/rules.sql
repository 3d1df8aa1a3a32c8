-- name: rules
-- What a worker must know to take turns and keep to limits.
SELECT :"schema".rules_v1($1::text[])::text AS rules;
