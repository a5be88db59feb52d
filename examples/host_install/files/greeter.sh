#!/bin/sh
# greeter: says who it is. `greeter check` exits 0 only with a readable, complete configuration.
set -eu
home=$(cd "$(dirname "$0")/.." && pwd)
. "$home/etc/greeter.conf"
[ -n "$GREETER_HOST" ] && [ -n "$GREETER_WORD" ]
printf '%s from %s\n' "$GREETER_WORD" "$GREETER_HOST"
