#!/bin/sh
# HealthCheckProgram: drains this node while something about the daemon is critical, and resumes it after that if it
# was drained for this reason. Slurm gives it 60 seconds.
PATH=${PATH:+$PATH:}/usr/bin:/bin
node=${SLURMD_NODENAME:-$(hostname -s)}
said=$(dataloadctl check --nagios --seconds 5 | head -n 1)
case $said in
"DATALOADD CRITICAL"*) scontrol update NodeName="$node" State=DRAIN Reason="dataloadd: ${said#* - }" ;;
*)
    case $(sinfo --noheader --nodes="$node" --format=%E) in
    dataloadd:*) scontrol update NodeName="$node" State=RESUME ;;
    esac
    ;;
esac
