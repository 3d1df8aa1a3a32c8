SELECT :"schema".index_dimensions_v1($1)
