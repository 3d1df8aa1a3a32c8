-- Let no worker claim from a queue any more.
INSERT INTO :"schema".queue AS q (name, paused_at) VALUES ($1::text, statement_timestamp())
ON CONFLICT (name) DO UPDATE
   SET paused_at = coalesce(q.paused_at, excluded.paused_at), updated_at = statement_timestamp();
