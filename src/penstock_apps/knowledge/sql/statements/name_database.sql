-- Which tables these are: a copy of them in another database has another name, and one on another server too.
SELECT format('database %s (%s) of server %s, schema %s', d.datname, d.oid, c.system_identifier, $schema$:"schema"$schema$)
  FROM pg_database AS d, pg_control_system() AS c
 WHERE d.datname = current_database()
