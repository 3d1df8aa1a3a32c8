-- Make the commit of this transaction durable if the server's default is not.
CREATE FUNCTION :"schema".commit_durably_v1() RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
