SELECT :"schema".fold_tallies_v1($1)
