#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
# A daemon of the job's own on each of its nodes, where there is none for all: no root is needed. Ends with the job.
#   sbatch own-daemon.sh feeds.yaml python3 train.py
export DATALOADD_SOCKET=/tmp/dataloadd-$SLURM_JOB_ID/control.sock
each_node=(srun --overlap --cpu-bind=none --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1)

# The directory has to be new and ours: in it nobody else can put a socket.
"${each_node[@]}" mkdir -m 700 "${DATALOADD_SOCKET%/*}" || exit 1
"${each_node[@]}" dataloadd --user --config "$1" --idle-exit 600 &
daemons=$!
# shellcheck disable=SC2016
if "${each_node[@]}" sh -c 'for try in $(seq 150); do dataloadctl ping && exit; sleep 0.2; done; exit 1' >/dev/null 2>&1; then
    srun --overlap "${@:2}"
    code=$?
else
    code=69
fi
kill "$daemons"
wait "$daemons"
"${each_node[@]}" rm -r "${DATALOADD_SOCKET%/*}"
exit $code
