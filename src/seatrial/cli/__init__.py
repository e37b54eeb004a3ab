"""The command line: parse, call one workflow, print, exit code. The only room that prints."""
