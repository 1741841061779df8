#!/bin/sh
# TaskProlog: what it prints as "export NAME=VALUE" is in the environment of each task. Needed only where the node's
# socket is not at its usual place, or tasks have an XDG_RUNTIME_DIR in which an old daemon of the user might listen.
echo "export DATALOADD_SOCKET=${DATALOADD_SOCKET:-/run/dataloadd/control.sock}"
