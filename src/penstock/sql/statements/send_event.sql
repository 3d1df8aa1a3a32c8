-- Send an event; its id, and how many jobs it woke at once.
SELECT id, woken FROM :"schema".send_event_v1($1::text, $2::text::jsonb, $3::text, $4::double precision, NULL,
                                              $5::text::jsonb);
