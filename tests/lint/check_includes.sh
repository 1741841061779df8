#!/usr/bin/env bash
# The include rule: which layer may include which. A layer is a folder; the daemon's root is "root", and an
# include without a folder is one of the root or the generated header of proto. Direct includes only.
. "$(dirname "$0")/common.sh"

declare -A allowed=(
    [base]="base"
    [proto]="proto"
    [page]="page proto"
    [store]="store base"
    [image]="image base"
    [device]="device base proto"
    [feed]="feed store image device base proto/slot.h"
    [control]="control feed device store page proto base"
    [root]="root control feed device store image proto base"
    [pack]="pack base store image"
    [client]="client proto"
    [ctl]="ctl client page proto"
    [examples]="client/dataload.h"
    [python]="python client/dataload.h client/keep.h proto/cuda.h"
)

# layer_of PATH: sets `layer` to that of a file of the tree.
layer_of() {
    layer=${1#daemon/}
    layer=${layer#client/}
    layer=${layer/#proto\/page\//page/}
    case $layer in
    */*) layer=${layer%%/*} ;;
    *) layer=$([[ $1 == daemon/* ]] && echo root || echo client) ;;
    esac
}

# target_of INCLUDE: sets `target` to the file of the tree that it means, or to nothing.
target_of() {
    target=daemon/$1
    case $1 in
    dataload.pb-c.h) target=proto/dataload.pb-c.h && return ;;
    proto/* | client/*) target=$1 ;;
    esac
    [ -e "$target" ] || target=
}

# may LAYER TARGET LAYER_OF_TARGET
may() {
    local one
    for one in ${allowed[$1]-}; do
        case $one in
        */*) [ "$2" = "$one" ] && return 0 ;;
        *) [ "$3" = "$one" ] && return 0 ;;
        esac
    done
    return 1
}

while IFS=: read -r file line text; do
    [[ $text =~ [\"\<]([^\"\>]*)[\"\>] ]] && name=${BASH_REMATCH[1]}
    target_of "$name"
    if [[ $text == *\<* ]]; then
        [ -z "$target" ] || complain "$file:$line: <$name> is hidden by $target"
        continue
    fi
    [[ $file == tests/* ]] && continue
    if [ -z "$target" ]; then
        complain "$file:$line: \"$name\" is not a path from daemon/ or the top"
        continue
    fi
    layer_of "$file" && from=$layer
    layer_of "$target"
    may "$from" "$target" "$layer" ||
        complain "$file:$line: $from may not include $layer (\"$name\"), only: ${allowed[$from]-nothing}"
done < <(sources proto client daemon tests |
    xargs grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]')
exit $wrong
