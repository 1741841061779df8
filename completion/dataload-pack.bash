# shellcheck shell=bash
# Verbs are those of --help, options those of VERB --help, all else is a directory.

_dataload_pack() {
    local verbs verb=${COMP_WORDS[1]}
    if ((COMP_CWORD == 1)); then
        verbs=$("$1" --help 2>/dev/null | sed -n '/^Verbs:/,/^$/s/^  \([a-z]\+\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$verbs --help --version" -- "$2")
    elif [[ $2 == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$1" "$verb" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')" -- "$2")
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$2")
    fi
} && complete -F _dataload_pack dataload-pack
