"""What limits a trainer, in words: dataloadctl's verdict, or what the trainer itself can tell."""
import json
import os
import pathlib
import shutil
import subprocess

ASK_S = 5


def find_program():
    """dataloadctl: the one that came with this package, else on the PATH."""
    beside = pathlib.Path(__file__).parent / "bin" / "dataloadctl"
    return str(beside) if beside.exists() else shutil.which("dataloadctl")


def ask_status(socket):
    """The daemon's status, as `dataloadctl status --json` has it, or None."""
    program = find_program()
    if not program:
        return None
    command = [program, *(["--socket", str(socket)] if socket else []), "status", "--json"]
    try:
        return json.loads(subprocess.run(command, capture_output=True, timeout=ASK_S, check=True).stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def client_of(status, info):
    """This trainer in the status, or None."""
    return next((client for client in (status or {}).get("clients", ())
                 if client.get("pid") == os.getpid() and client.get("job") == info["job"] and client.get("rank") == info["rank"]), None)


def own_view(stats):
    elapsed, waited = stats["elapsed_s"] or 1e-9, stats["wait_s"]
    rate, share = stats["samples"] / elapsed, min(waited / elapsed, 1.0)
    limit = "the trainer is the limit" if share < 0.05 else "the input is the limit (dataloadctl status names the stage)"
    return (f"{limit}: {rate:.0f} samples/s, waited {share:.0%} of {elapsed:.1f} s, longest {stats['longest_stall_s'] * 1e3:.0f} ms; "
            f"{stats['ready']} batches ready, {stats['held']} held")


def explain(stats, info, socket):
    client = client_of(ask_status(socket), info)
    return client and client.get("verdict") or own_view(stats)
