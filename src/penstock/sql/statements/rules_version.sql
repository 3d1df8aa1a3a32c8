-- name: rules_version
-- Whether settings have changed since they were read.
SELECT :"schema".rules_version_v1() AS version;
