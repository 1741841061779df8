#!/usr/bin/env bash
# Each kind of event in daemon/base/log_ids.h is used, and explained by the catalog, which systemd can read.
. "$(dirname "$0")/common.sh"

table=daemon/base/log_ids.h
catalog=systemd/dataloadd.catalog

while read -r name id; do
    [ "$(grep -c "^-- $id\$" $catalog)" = 1 ] || complain "$name: $catalog has not one entry for $id"
    grep -rqw --include='*.c' "LOG_$name" daemon || complain "$name: nothing logs it"
done < <(sed -n 's/^ *X(\([A-Z_]*\), *"\([0-9a-f]*\)").*/\1 \2/p' $table)
while read -r id; do
    grep -q "\"$id\"" $table || complain "$catalog: $id is not in $table"
    lines=$(sed -n "/^-- $id\$/,/^-- /p" $catalog)
    for part in Subject Defined-By Documentation; do
        grep -q "^$part: ." <<<"$lines" || complain "$catalog: $id has no $part"
    done
done < <(sed -n 's/^-- //p' $catalog)

command -v journalctl >/dev/null || exit $wrong
root=$(mktemp -d)
trap 'rm -r "$root"' EXIT
mkdir -p "$root/usr/lib/systemd/catalog" "$root/var/lib/systemd/catalog"
cp $catalog "$root/usr/lib/systemd/catalog"
said=$(journalctl --root="$root" --update-catalog 2>&1) || complain "$catalog: $said"
[ "$(journalctl --root="$root" --dump-catalog | grep -c '^-- ')" = "$(grep -c '^-- ' $catalog)" ] ||
    complain "$catalog: systemd does not read all of it"
exit $wrong
