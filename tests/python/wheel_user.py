"""What somebody does who has installed the wheel and nothing else: an epoch from a daemon of their own. Run by wheel.sh."""
import os
import subprocess
import sys
import time
from pathlib import Path

import dataload

feed = dataload.Feed(shards=f"{os.path.abspath(sys.argv[1])}/*.tar", batch=16, name="sample")
with dataload.Loader(feed, spawn=True, as_="dlpack") as loader:
    batches = list(map(lambda batch: sorted(batch), loader))
    assert len(batches) == len(loader) > 1, batches
    assert {"image", "label"} <= set(batches[0]), batches[0]
    daemons = [entry for entry in Path("/proc").glob("[0-9]*") if b"--idle-exit" in (entry / "cmdline").read_bytes()]
    assert len(daemons) == 1, daemons
    # Beside the C library of the system nothing but what came with the wheel, and the driver where there is one.
    maps = (daemons[0] / "maps").read_text(encoding="utf-8").split("\n")
    files = {line.split()[-1] for line in maps if ".so" in line}
    foreign = {name for name in files if "/dataload" not in name and not os.path.basename(name).startswith(("libc.", "libm.", "ld-linux", "libpthread."))}
    assert not foreign - {name for name in foreign if "libz.so" in name}, foreign
loader.close()
ctl = subprocess.run([str(Path(sys.executable).with_name("dataloadctl")), "status"], capture_output=True, text=True)
assert ctl.returncode == 3, ctl  # no daemon of all
end = time.monotonic() + 60
while b"--idle-exit" in (daemons[0] / "cmdline").read_bytes() if daemons[0].exists() else b"":
    assert time.monotonic() < end, "the daemon stays"
    time.sleep(0.1)
print(f"{len(batches)} batches, and the daemon has gone")
