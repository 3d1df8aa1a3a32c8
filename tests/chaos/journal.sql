-- What happened to jobs, leases, grants and ticks, in the database's own order: a job's changes are made under
-- the lock of its row, and those of a key under the key's, so the sequence orders them as they happened.
CREATE SCHEMA chaos;

CREATE TABLE chaos.effect (job bigint NOT NULL, attempt integer NOT NULL);

CREATE TABLE chaos.span (
    id      bigserial   PRIMARY KEY,
    job     bigint      NOT NULL,
    lane    text        NOT NULL,
    worker  text        NOT NULL,
    began   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended   timestamptz
);

CREATE TABLE chaos.journal (
    seq     bigserial   PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    source  text        NOT NULL,
    was     jsonb,
    now     jsonb
);

CREATE FUNCTION chaos.write() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    v_left_out text[] := '{args,meta,errors,retry,result,tags}';
BEGIN
    INSERT INTO chaos.journal (source, was, now)
    VALUES (TG_ARGV[0],
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - v_left_out END,
            -- Of what a schedule has enqueued, which tick it is of.
            -- Of the errors only which attempt the last one is of, and of what kind.
            CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - v_left_out
                 || jsonb_build_object('last_error', to_jsonb(NEW) #> '{errors,-1}') #- '{last_error,message}'
                    #- '{last_error,traceback}'
                 || jsonb_build_object('of', jsonb_build_array(to_jsonb(NEW) #> '{meta,schedule}', to_jsonb(NEW) #> '{meta,tick}'))
            END);
    RETURN NULL;
END
$$;

CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock.job
    FOR EACH ROW EXECUTE FUNCTION chaos.write('job');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock.job_history
    FOR EACH ROW EXECUTE FUNCTION chaos.write('history');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock.lease
    FOR EACH ROW EXECUTE FUNCTION chaos.write('lease');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock."grant"
    FOR EACH ROW EXECUTE FUNCTION chaos.write('grant');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock.limit_setting
    FOR EACH ROW EXECUTE FUNCTION chaos.write('limit');
CREATE TRIGGER journal AFTER INSERT OR UPDATE OR DELETE ON penstock.schedule_fire
    FOR EACH ROW EXECUTE FUNCTION chaos.write('fire');
