"""The manifests of docs/kubernetes are YAML of the kinds that they say, and keep the rules that docs/kubernetes.md gives reasons for."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs/kubernetes"
wrong = []


def check(where, holds, rule):
    if not holds:
        wrong.append(f"{where}: {rule}")


def words(container, *path):
    value = container
    for name in path:
        value = (value or {}).get(name)
    return value or []


def check_pod(where, spec):
    check(where, not any(spec.get(name) for name in ("hostIPC", "hostPID", "hostNetwork")), "needs no namespace of the host")
    check(where, spec.get("hostUsers") is not False, "users of another namespace are all one to the daemon")
    check(where, spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0, "runs as root")
    check(where, spec["securityContext"]["supplementalGroups"], "has no group")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for container in spec["containers"] + spec.get("initContainers", []):
        place = f"{where}: {container['name']}"
        check(place, not container["securityContext"].get("privileged"), "is privileged")
        check(place, container["securityContext"]["allowPrivilegeEscalation"] is False, "may get more rights")
        check(place, container["securityContext"]["capabilities"]["drop"] == ["ALL"], "keeps capabilities")
        for mount in container["volumeMounts"]:
            check(place, mount["name"] in volumes, f"there is no volume {mount['name']}")
    for volume in volumes.values():
        path = volume.get("hostPath")
        check(where, not path or path["type"] in ("Directory", "DirectoryOrCreate"), "a path of the host is not a directory")
        check(where, not path or "sock" not in path["path"], "mounts the socket and not its directory")


def check_daemon_set(where, manifest):
    spec = manifest["spec"]["template"]["spec"]
    check(where, manifest["spec"]["selector"]["matchLabels"] == manifest["spec"]["template"]["metadata"]["labels"], "selects other pods")
    check(where, manifest["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1}, "may take more than one node at a time")
    check(where, spec["priorityClassName"] == "system-node-critical", "may be evicted before those that need it")
    daemon, = spec["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        check(where, words(daemon, probe, "exec", "command") == ["dataloadctl", "ping"], f"{probe} is not dataloadctl ping")
        check(where, words(daemon, probe, "timeoutSeconds") > 5, f"{probe} gives up before dataloadctl does")
    stop = words(daemon, "lifecycle", "preStop", "exec", "command")
    drain = int(stop[stop.index("--seconds") + 1]) if "drain" in stop else 0
    check(where, spec["terminationGracePeriodSeconds"] >= drain + 10, "is killed before it has ended")
    check(where, daemon["resources"]["limits"]["memory"] == daemon["resources"]["requests"]["memory"], "is promised less memory than it takes")
    run, = (volume for volume in spec["volumes"] if volume["name"] == "run")
    return run["hostPath"]["path"], spec["securityContext"]["runAsGroup"]


def check_trainer(where, manifest, socket, group):
    spec = manifest["spec"]["template"]["spec"]
    check(where, group in spec["securityContext"]["supplementalGroups"], f"is not in the daemon's group {group}")
    mounted = [volume["hostPath"] for volume in spec["volumes"] if "hostPath" in volume]
    check(where, mounted == [{"path": socket, "type": "Directory"}], "mounts something else than the socket's directory")


def check_config(where, text, daemon):
    """The daemon can read it; that the data is not here is another matter."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([daemon, "--check-config", "--config", file.name], capture_output=True, text=True, timeout=60)
    check(where, "feed pets" in done.stdout, done.stderr.strip())


def main():
    daemon_set, trainer = (list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))) for name in ("daemonset.yaml", "trainer.yaml"))
    check("daemonset.yaml", [part["kind"] for part in daemon_set] == ["Namespace", "ConfigMap", "DaemonSet"], "has other kinds")
    check("trainer.yaml", [part["kind"] for part in trainer] == ["Job"], "has other kinds")
    for name, manifest in (("daemonset.yaml", daemon_set[-1]), ("trainer.yaml", trainer[0])):
        check_pod(name, manifest["spec"]["template"]["spec"])
    check_trainer("trainer.yaml", trainer[0], *check_daemon_set("daemonset.yaml", daemon_set[-1]))
    daemon = pathlib.Path(sys.argv[1]) / "daemon/dataloadd"
    if daemon.exists():
        check_config("daemonset.yaml", daemon_set[1]["data"]["dataloadd.yaml"], daemon)
    print("\n".join(wrong) or "both keep the rules")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
