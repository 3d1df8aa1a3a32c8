-- Wake jobs whose wait for an event is over.
SELECT :"schema".wake_waits_v1($1);
