SELECT :"schema".make_index_v1($1, $2)
