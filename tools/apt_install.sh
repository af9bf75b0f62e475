#!/bin/sh
# Usage: apt_install.sh COMMAND:PACKAGE... Installs each Debian package whose command is not there.
# `-:PACKAGE` installs whatever is there. Without apt or the right to use it, says what to install and goes on.
set -eu
wanted=
for pair in "$@"; do
    command=${pair%%:*}
    [ "$command" != - ] && command -v "$command" >/dev/null 2>&1 && continue
    wanted="$wanted ${pair#*:}"
done
[ -n "$wanted" ] || exit 0
as_root=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"; else
        echo "please install:$wanted" >&2
        exit 0
    fi
fi
command -v apt-get >/dev/null 2>&1 || { echo "please install:$wanted" >&2; exit 0; }
$as_root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $wanted" >/dev/null
