#!/usr/bin/env bash
# What the documents tell to type exists: verbs and options of the programs, and files of this tree that they link to.
. "$(dirname "$0")/common.sh"
build=$1
declare -A program=([dataloadd]=daemon/dataloadd [dataloadctl]=client/dataloadctl [dataload-pack]=daemon/dataload-pack)
declare -A known

for name in "${!program[@]}"; do
    [ -x "$build/${program[$name]}" ] || { echo "skipped: $name is not built"; exit 77; }
done

# options_of PROGRAM VERB: in `known`, asked once.
options_of() {
    local key="$1 $2" path="$build/${program[$1]}"
    [ -n "${known[$key]-}" ] && return
    if [ "$1" = dataloadctl ]; then
        known[$key]=$("$path" __complete ${2:+"$2"} --)
    else
        known[$key]=$("$path" ${2:+"$2"} --help | grep -oE -- '--[a-z][a-z-]+')
    fi
}

# verb_of PROGRAM WORD: is it one?
verb_of() {
    case $1 in
    dataloadctl) "$build/${program[$1]}" __complete "$2" | grep -qx -- "$2" ;;
    dataload-pack) "$build/${program[$1]}" "$2" --help >/dev/null 2>&1 ;;
    *) false ;;
    esac
}

# code: of a Markdown file, its spans and blocks, as LINE:TEXT; of another file all lines.
code() {
    case $1 in
    *.md) awk '/^ *```/ { block = !block; next }
               block || /^    / { print FNR ":" $0; next }
               { n = split($0, part, "`"); for (i = 2; i <= n; i += 2) print FNR ":" part[i] }' "$1" ;;
    *) grep -n '' "$1" ;;
    esac
}

mention() {
    local where=$1 name=$2 verb="" word
    shift 2
    for word in "$@"; do
        word=${word%%[=.,:]*}
        case $word in
        --*)
            options_of "$name" "$verb"
            [[ $word == --@(help|version|usage) ]] || grep -qx -- "$word" <<<"${known["$name $verb"]}" ||
                complain "$where: $name $verb has no option $word"
            ;;
        [a-z]*)
            [ -n "$verb" ] && continue
            [ "$name" = dataloadd ] && continue
            verb=$word
            verb_of "$name" "$verb" || { complain "$where: $name has no verb $verb"; return; }
            ;;
        esac
    done
}

mapfile -t files < <(find README.md CHANGELOG.md SECURITY.md docs systemd -type f \
    \( -name '*.md' -o -name '*.sh' -o -name '*.yaml' -o -name '*.yml' -o -name '*.service' -o -name '*.container' \) | LC_ALL=C sort)
for file in "${files[@]}"; do
    while IFS=: read -r line text; do
        while read -r command; do
            read -ra words <<<"$command"
            mention "$file:$line" "${words[@]}"
        done < <(sed -E 's/(^| )--?[a-z]+ dataload(d|ctl|-pack) / /g' <<<"$text" | grep -oE '(^|[^-a-z0-9/_.]|/bin/)dataload(d|ctl|-pack) +[^]|;#&()<>"'"'"'`*,]+' | sed 's/^.*\(dataload\(d\|ctl\|-pack\) \)/\1/')
    done < <(code "$file" | grep -E 'dataload(d|ctl|-pack) ')
done

# Links of the documents to files.
for file in README.md SECURITY.md docs/*.md; do
    while IFS=: read -r line link; do
        [ -e "$(dirname "$file")/$link" ] || complain "$file:$line: links to $link, which is not there"
    done < <(grep -noE '\]\([^)#]+' "$file" | grep -vE 'https?:|mailto:' | sed 's/](//')
done
exit $wrong
