"""The typed Python client of REST v2 that the command line uses.

Reading order: ``pack`` and ``ignore`` (a directory becomes a bundle), ``connection`` (HTTP, its
time-outs, retries and errors), ``answers`` (what comes back), ``client`` (one method for each
call), ``submission`` (pack, upload what is missing, submit once), ``follow`` (a job's log, live).
"""
