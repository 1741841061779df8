# shellcheck shell=bash
# dataloadctl itself says what may follow, the names that its daemon has now too.

_dataloadctl() {
    local line=${COMP_LINE:0:COMP_POINT} candidates breaks="" lead=""
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    mapfile -t candidates < <("$1" __complete "${words[@]:1}" 2>/dev/null)
    COMPREPLY=()
    case ${candidates[0]-} in
    @file) compopt -o default && return ;;
    @directory) compopt -o filenames && mapfile -t COMPREPLY < <(compgen -d -- "$2") && return ;;
    esac
    # What readline puts in begins behind the last of these.
    [[ $COMP_WORDBREAKS == *=* ]] && breaks+="="
    [[ $COMP_WORDBREAKS == *:* ]] && breaks+=":"
    [[ -n $breaks ]] && lead=${words[-1]%"${words[-1]##*[$breaks]}"}
    COMPREPLY=("${candidates[@]#"$lead"}")
} && complete -F _dataloadctl dataloadctl
