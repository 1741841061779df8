#!/usr/bin/env python3
"""check_shards.py FOLDER SHARDS: the tar shards hold the folder, as Python's tarfile reads them.

Every picture once, bytes and class number right, one record a key by WebDataset's rule, shards equal
in bytes within one record, no order by class."""
import collections
import pathlib
import re
import sys
import tarfile

folder, shards = map(pathlib.Path, sys.argv[1:])
classes = sorted((p.name for p in folder.iterdir() if p.is_dir()), key=lambda n: n.encode())
assert (shards / "classes.txt").read_text().split("\n")[:-1] == classes
pictures = [p for p in folder.glob("*/**/*") if p.suffix.lower() in (".jpg", ".jpeg")]
wanted = collections.Counter(
    (p.read_bytes(), classes.index(p.relative_to(folder).parts[0])) for p in pictures)

found, sizes, largest, numbers, order, keys = collections.Counter(), [], 0, [], [], set()
files = sorted(shards.glob("*.tar"))
assert [f.name for f in files] == [f"shard-{i:06}.tar" for i in range(len(files))]
for file in files:
    sizes.append(file.stat().st_size)
    with tarfile.open(file) as tar:
        members = tar.getmembers()
        for image, label in zip(members[::2], members[1::2], strict=True):
            # ustar and pax headers and padding included
            largest = max(largest, (image.size + 511) // 512 * 512 + 3584)
            parts = [re.fullmatch(r"((?:.*/|)[^.]+)[.]([^/]*)", m.name).groups()
                     for m in (image, label)]
            assert parts[0][0] == parts[1][0] and [p[1] for p in parts] == ["jpg", "cls"], parts
            assert parts[0][0] not in keys
            keys.add(parts[0][0])
            numbers.append(int(parts[0][0].split("_")[0]))
            number = int(tar.extractfile(label).read())
            order.append(number)
            found[tar.extractfile(image).read(), number] += 1
            assert image.mode == 0o444 and image.mtime == 0
assert found == wanted, "other pictures or classes"
assert numbers == list(range(len(pictures))), "keys are not numbered in order"
mean = sum(sizes) / len(sizes)
assert all(abs(size - mean) <= largest for size in sizes), (sizes, largest)
if len(set(order)) > 1 and len(order) > 20:
    runs = 1 + sum(a != b for a, b in zip(order, order[1:]))
    assert runs > 2 * len(classes), "sorted by class"
print(f"{len(pictures)} pictures in {len(files)} shards")
