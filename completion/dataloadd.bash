# shellcheck shell=bash
# Options are those of --help, and so is what each of them takes.

_dataloadd() {
    local help option=$3
    [[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD - 2]}
    help=$("$1" --help 2>/dev/null) || return
    if [[ $option == -* && $help =~ "$option"(, --[a-z-]+)?=([A-Z]+) ]]; then
        [[ ${BASH_REMATCH[2]} == @(FILE|PATH) ]] && compopt -o default
    elif [[ $2 == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(grep -oE -- '--[a-z][a-z-]+' <<<"$help")" -- "$2")
    fi
} && complete -F _dataloadd dataloadd
