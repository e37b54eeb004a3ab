"""The only writer of files and of the ledger."""
