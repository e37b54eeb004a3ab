"""The detached keeper of a run: guard and supervisor. Standard library only, Python 3.9 and newer.

The terminal starts ``message.entry_command()`` with a ``message.LaunchMessage`` on its standard
input and from then on only reads the record.
"""
