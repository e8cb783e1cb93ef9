# Sourced by the scripts beside it: finds a Python, then lets scripts/set_up.py make .venv.
# The caller sets `root` first; afterwards "$root/.venv/bin/python" works.
# shellcheck shell=sh

# Print the path of the first Python that is new enough, or nothing.
find_python() {
    for name in ${STREAMLET_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$name" -c 'import sys; print(sys.executable)'
            return
        fi
    done
}

# set_up demo|test: make .venv ready for that purpose. Quick, and without network, when it already is.
set_up() {
    python=$(find_python)
    if [ -z "$python" ]; then
        found=$(python3 --version 2>&1) || found="no python3 at all"
        echo "streamlet needs Python 3.11 or newer, and PATH offers: $found." >&2
        echo "Install one (Debian and Ubuntu: apt install python3 python3-venv; macOS: brew install python)," >&2
        echo "or name it: STREAMLET_PYTHON=/path/to/python3.12 $0" >&2
        exit 2
    fi
    "$python" "$root/scripts/set_up.py" "$1" || exit $?
}
