-- Takes durable steps and events away again.
SELECT 1;
