"""One module per use case: call engines, store, readers and evidence; never print."""
