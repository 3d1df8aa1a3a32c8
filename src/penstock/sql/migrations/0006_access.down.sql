-- Takes keys, people and their logins away again: nobody gets into the service any more.
DROP FUNCTION :"schema".try_login_v1;
DROP INDEX :"schema".audit_actor, :"schema".audit_target;
DROP TABLE :"schema".login_failure, :"schema".login, :"schema".person, :"schema".api_key;
