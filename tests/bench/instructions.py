"""Instructions that decoding and transforming a picture takes, against those recorded in instructions.tsv.

  tests/bench/instructions.py [--record] [--build DIR]

25 pictures of the sample generator go through bench_image under callgrind, whose counts repeat where times do not.
More than 1 % above the record is a failure. After a change that is meant to cost more, or one that costs less:
--record, on the compiler of the release, and the new file goes with the change.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RECORD = HERE / "instructions.tsv"
METHODS = ("train uint8_nhwc", "train float16_nchw", "eval uint8_nhwc")
PICTURES = 25
MORE = 0.01

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--record", action="store_true")
parser.add_argument("--build", default=os.environ.get("DATALOADD_BUILD", HERE.parent.parent / "build/release"), type=pathlib.Path)
OPTIONS = parser.parse_args()


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def compiler():
    """First line of what the compiler of the build says of itself."""
    cache = (OPTIONS.build / "CMakeCache.txt").read_text(encoding="utf-8")
    path = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", cache, re.MULTILINE)[1]
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def count(folder, method):
    """Instructions a picture."""
    done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}.out", OPTIONS.build / "tests/bench/bench_image",
                           folder, "1", method], capture_output=True, text=True, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) // PICTURES


def counts():
    with tempfile.TemporaryDirectory(prefix="dl-") as scratch:
        folder = pathlib.Path(scratch) / "pictures"
        folder.mkdir()
        subprocess.run([OPTIONS.build / "daemon/dataload-pack", "sample", f"{scratch}/tar", "--images", str(PICTURES)], check=True,
                       stdout=subprocess.DEVNULL)
        for shard in sorted(pathlib.Path(scratch, "tar").glob("*.tar")):
            with tarfile.open(shard) as tar:
                for member in tar:
                    if member.name.endswith(".jpg"):
                        (folder / member.name.replace("/", "_")).write_bytes(tar.extractfile(member).read())
        return {method: count(folder, method) for method in METHODS}


def recorded():
    lines = (line.split("\t") for line in RECORD.read_text(encoding="utf-8").splitlines())
    return dict(lines)


def main():
    if not OPTIONS.record and os.environ.get("DATALOADD_LONG") != "1":
        skip("a minute of valgrind: test.sh --long, or DATALOADD_LONG=1")
    if not shutil.which("valgrind"):
        skip("valgrind is missing")
    if "avx2" not in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        skip("this processor has no AVX2: the counts are of code that uses it")
    if OPTIONS.record:
        lines = {"compiler": compiler(), **counts()}
        RECORD.write_text("".join(f"{key}\t{value}\n" for key, value in lines.items()), encoding="utf-8")
        print(RECORD.read_text(encoding="utf-8"), end="")
        return
    record = recorded()
    if record.pop("compiler") != compiler():
        skip(f"built by {compiler()}, the counts are recorded of another compiler")
    seen, failed = counts(), False
    for method in METHODS:
        before = int(record[method])
        over = seen[method] / before - 1
        failed |= over > MORE
        print(f"{method}: {seen[method]} instructions a picture, {100 * over:+.2f} % of {before}{': too many' if over > MORE else ''}")
    sys.exit(failed)


main()
