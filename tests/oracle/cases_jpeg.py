"""The odd JPEGs of the handed cases: outcome, pixels, memory."""
import hashlib
import os
import sys
import time

from driver import Driver, shared

TABLE = shared("cases", "REFS.tsv")
FOLDER = os.path.dirname(TABLE)
GOOD = {"OK", "OK-WARN", "OK-ORIENT", "OK-OR-SIZE"}
# Cases where the log leaves a choice, and formats that are not read yet.
ALSO = {"J13": {"BAD-UNSUP", "BAD-CORRUPT"}, "J15": {"BAD-TRUNC", "BAD-CORRUPT"},
        "J32": {"BAD-TRUNC", "BAD-CORRUPT"}, "J30": {"BAD-UNSUP"}}
SAYS = {"J04": "12", "J30": "PNG", "J12": "65500", "J25": "scans"}


def pixels_differ(got, size, digest):
    data = hashlib.sha256(got["data"]).hexdigest()
    return "%dx%d" % got["size"] != size or data != digest


def judge(driver, id, path, outcome, size, digest, turned):
    got = driver.run(path)
    if outcome not in GOOD:
        if got["class"] not in ALSO.get(id, {outcome}):
            return f"{got['class']} instead of {outcome}: {got['reason']}"
        return None if SAYS.get(id, "") in got["reason"] else f"says only: {got['reason']}"
    if outcome == "OK-OR-SIZE" and got["class"] == "BAD-SIZE":
        return None
    if got["class"] != "OK" or got["damaged"] != (outcome == "OK-WARN"):
        return f"{got['class']}, damaged {got['damaged']} instead of {outcome}: {got['reason']}"
    if pixels_differ(got, size, digest):
        return f"other pixels, {got['size']}"
    if outcome == "OK-ORIENT" and (not got["turned"] or pixels_differ(driver.run(path, exif=1),
                                                                      *turned)):
        return "turned wrongly"
    return None


driver = Driver()
cases = wrong = 0
bad_files = []
with open(TABLE, encoding="utf-8") as lines:
    for line in lines:
        words = line.rstrip("\n").split("\t") + [""] * 4
        if not words[0].startswith("J"):
            continue
        id, name, _, _, outcome, size, _, _, digest, _, turned_size, turned_digest = words[:12]
        path = os.path.join(FOLDER, name)
        before, begin = driver.rss(), time.monotonic()
        problem = judge(driver, id, path, outcome, size, digest, (turned_size, turned_digest))
        if not problem and outcome == "BAD-SIZE" and driver.rss() - before > 32 << 10:
            problem = "took memory although refused"
        if not problem and time.monotonic() - begin > 20:
            problem = "took too long"
        if problem:
            wrong += 1
            print(id, name, problem)
        if outcome not in GOOD and id != "J26":
            bad_files.append(path)
        cases += 1

small = Driver(100 << 20)  # 81 megapixels do not fit in 100 MiB
got = small.run(os.path.join(FOLDER, "jpeg/flat-9000x9000-progressive.jpg"))
if got["class"] != "BAD-SIZE" or "limit" not in got["reason"]:
    wrong += 1
    print("J33 under a small limit:", got["class"], got["reason"])

# Bad files leave nothing behind: the memory after many rounds is that after few.
rounds = 10000 if os.environ.get("DATALOADD_LONG") else 1000
for i in range(rounds):
    if i == rounds // 10:
        first = driver.rss()
    driver.run(bad_files[i % len(bad_files)])
if driver.rss() - first > 4 << 10:
    wrong += 1
    print(f"{driver.rss() - first} kB more after {rounds} bad pictures")
print(f"{cases} cases, {wrong} wrong")
sys.exit(1 if wrong or cases < 30 or not (driver.end() and small.end()) else 0)
