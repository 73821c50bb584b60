"""The transforms and predicates that Apache Connect ships."""
