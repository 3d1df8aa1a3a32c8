-- Search: by meaning and by words, in one call.
\ir ../functions/search_place.sql
\ir ../functions/search_admits_v1.sql
\ir ../functions/search_strict_v1.sql
\ir ../functions/search_highlight_v1.sql
\ir ../functions/search_allowed_v1.sql
\ir ../functions/search_scope_v1.sql
\ir ../functions/search_exact_v1.sql
\ir ../functions/search_index_v1.sql
\ir ../functions/search_words_v1.sql
\ir ../functions/search_v1.sql
