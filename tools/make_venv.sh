#!/bin/sh
# Usage: make_venv.sh PYTHON VENV. Makes VENV with pip inside, also where Debian split `venv` from Python.
set -eu
python=$1
venv=$2
[ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1 && exit 0
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $python is $("$python" --version 2>&1). Try: make PYTHON=python3.11 ..." >&2
    exit 1
}
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    sh "$(dirname "$0")/apt_install.sh" "-:python$version-venv"
fi
echo "setting up $venv: once, half a minute or more" >&2
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip
