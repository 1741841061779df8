"""300 photographs: decoded bytes by their recorded hashes, eval and train output by Pillow."""
import hashlib
import os
import sys

from driver import EVAL, TRAIN, Draws, Driver, apply, shared, words

folder = shared("data", "imagenet-300")
table = shared("data", "imagenet-300.refs.tsv")
try:
    from PIL import Image
except ImportError:
    Image = None
    print("no python3-pil: decoding only")

driver = Driver()
files = wrong = 0
with open(table, encoding="utf-8") as lines:
    for line in lines:
        if line.startswith("#"):
            continue
        name, _, _, size, _, _, digest = line.rstrip("\n").split("\t")[:7]
        path = os.path.join(folder, name)
        got = driver.run(path)
        bad = []
        if hashlib.sha256(got["data"]).hexdigest() != digest or "%dx%d" % got["size"] != size:
            bad.append("decode")
        for what, ops in (("eval", EVAL), ("train", TRAIN)) if Image else ():
            want = apply(Image.open(path).convert("RGB"), ops, Draws(11, 5, files))
            if driver.run(path, words(ops), seed=11, epoch=5, id=files)["data"] != want.tobytes():
                bad.append(what)
        if bad:
            print(name, "differs:", ", ".join(bad), got["class"], got["reason"])
        wrong += len(bad)
        files += 1
print(f"{files} pictures, {wrong} differences")
sys.exit(1 if wrong or files != 300 or not driver.end() else 0)
