package catalog

// Settings is the table, sorted by name.
var Settings = []Setting{}
