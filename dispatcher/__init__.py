"""What every process of the dispatcher shares: words, tables, broker, API, command line."""

from importlib import metadata

try:
    __version__ = metadata.version("ansible-dispatcher")
except metadata.PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0.0.0"

#: Version of this code's understanding of the schema; a database whose ``min_code`` is above it
#: refuses the process (docs/protocols.md 8).
CODE_VERSION = 4
