"""The promises about workers, shown to hold: faults are made, and their marks counted.

    python -m tests.chaos.run [--only ROW] [--pool POOL] [--quick] [--report FILE]

    rows/       one kind of fault per module
    row.py      what a row of the report is, and the list of all
    tally.py    what was counted, beside what was required
    report.py   the file for people
    run.py      the command line: each row on a server of its own

`test_rows.py` runs the same rows in small numbers among the other tests.
"""
