-- People by name.
SELECT p.name, p.role, p.created_at, p.created_by, p.disabled_at FROM :"schema".person AS p ORDER BY p.name;
