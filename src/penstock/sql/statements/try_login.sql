-- Count an attempt to log in; the seconds to wait, if it is one too many.
SELECT :"schema".try_login_v1($1::bytea[], $2::integer[], $3::double precision[]) AS wait;
