#!/usr/bin/env bash
# In a fresh Debian 11: a user who is not root unpacks the tarball, moves it, and uses it.
set -euo pipefail
cd "$(dirname "$0")"
id -u alice >/dev/null 2>&1 || useradd -m alice
rm -rf /home/alice/*
cp ./*.tar.gz /home/alice/
cat >/home/alice/use.sh <<'ALICE'
set -euo pipefail
cd
ldd --version | sed -n 1p
tar xzf dataloadd-*.tar.gz
mkdir -p "apps here"
mv dataloadd-*/ "apps here/dataloadd"
export PATH="$HOME/apps here/dataloadd/bin:$PATH" PYTHONPATH="$HOME/apps here/dataloadd/lib/python"
for program in dataloadd dataloadctl dataload-pack; do
    $program --version
done
if ldd "apps here/dataloadd/bin/"* "apps here/dataloadd/lib/libdataload.so.0" "$PYTHONPATH"/dataload/*.so | grep 'not found'; then
    exit 1
fi
dataload-pack sample shards >/dev/null
mkdir -p .config/dataloadd
cat >.config/dataloadd/dataloadd.yaml <<YAML
feeds:
  - name: sample
    source: "$HOME/shards/*.tar"
    fields: [{ name: image, from: [jpg], kind: image }, { name: label, from: [cls], kind: int }]
    transform: train
YAML
dataloadd --user --check-config
dataloadd --user 2>daemon.log &
for _ in $(seq 100); do
    dataloadctl ping >/dev/null 2>&1 && break
    sleep 0.1
done
dataloadctl bench sample --batch 16 --seconds 1 | sed -n 1,4p
cat >train.py <<'PYTHON'
import sys
import dataload

spawn = sys.argv[1] == "spawn"
feed = dataload.Feed(name="own", shards="shards/*.tar", transform="train") if spawn else "sample"
arguments = {"spawn": True, "config": [feed]} if spawn else {}
loader = dataload.Loader("own" if spawn else "sample", batch_size=16, as_="numpy", **arguments)
batch = next(iter(loader))
print(sys.version.split()[0], {name: value.shape for name, value in batch.items() if hasattr(value, "shape")})
loader.close()
PYTHON
python3 train.py served
dataloadctl status
kill %1
wait %1
python3 train.py spawn
echo "unpacked, moved and used by $(id -un), without root"
ALICE
chown alice /home/alice/use.sh /home/alice/*.tar.gz
setpriv --reuid alice --regid alice --init-groups env HOME=/home/alice bash /home/alice/use.sh
