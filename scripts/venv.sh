#!/bin/sh
# Makes the virtual environment $1 when it is missing, with the command
# `protoagent` in it. The product runs from its checkout and is not copied there.
set -eu
venv=$1
checkout=$(pwd)

is_new_enough() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null
}

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$name"; then
            echo "$name"
            return
        fi
    done
    echo "error: no Python from 3.11 to 3.14 found; install one or name it: make run PYTHON=/path/to/python3" >&2
    exit 1
}

# One that was left half-made, or whose Python is gone, is made again.
if ! is_new_enough "$venv/bin/python" || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ]; then
        echo "error: $venv exists and is no virtual environment; move it away" >&2
        exit 1
    fi
    echo "making $venv with $("$python" --version) …"
    if ! "$python" -m venv --clear "$venv"; then
        echo "error: $python cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2
        exit 1
    fi
fi

packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$checkout" >"$packages/protoagent-checkout.pth"
cat >"$venv/bin/protoagent" <<END
#!/bin/sh
exec "$checkout/$venv/bin/python" -m protoagent "\$@"
END
chmod +x "$venv/bin/protoagent"
