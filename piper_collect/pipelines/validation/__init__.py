"""What ``validate`` looks at in a dataset, one module a subject."""
