package validate

var Rules = []Rule{}
