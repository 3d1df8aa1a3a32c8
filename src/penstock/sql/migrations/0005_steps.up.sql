-- Durable steps, their cache, and events that jobs wait for.
SELECT 1;
