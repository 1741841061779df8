# shellcheck shell=bash disable=SC2034
# The Debian packages of each purpose, and their installation. Sourced by quickstart.sh and test.sh.

packages_build="build-essential cmake ninja-build pkg-config libuv1-dev libprotobuf-c-dev
protobuf-c-compiler libjpeg62-turbo-dev libyaml-dev libjansson-dev libxxhash-dev libspng-dev
libncurses-dev libsystemd-dev libmicrohttpd-dev"
packages_test="$packages_build check libsubunit-dev librandom123-dev clang clang-tidy clang-format
libclang-rt-14-dev universal-ctags shellcheck python3-dev python3-yaml python3-pil python3-numpy python3-torchvision
procps util-linux git file prometheus tmux systemd mandoc zsh"
packages_long="valgrind debootstrap python3-venv chromium lintian systemd-container munge slurm-wlm"

# missing_packages NAME...: those that are not installed, on one line.
missing_packages() {
    local name
    for name in "$@"; do
        case $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) in
        *" installed") ;;
        *) printf '%s ' "$name" ;;
        esac
    done
}

# install_packages NAME...: installs what is missing; asks before sudo. Without apt or rights it names what is
# missing, changes nothing and fails.
install_packages() {
    local missing as_root=""
    missing=$(missing_packages "$@")
    [ -z "$missing" ] && return 0
    if [ "${no_install:-0}" = 1 ] || ! command -v apt-get >/dev/null; then
        echo "missing packages: $missing" >&2
        echo "install them (Debian 12 names) and run this again" >&2
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || [ ! -t 0 ]; then
            echo "missing packages, and no right to install them: $missing" >&2
            echo "ask an administrator for: apt-get install $missing" >&2
            return 1
        fi
        printf 'Install with sudo: %s? [y/N] ' "$missing"
        read -r answer
        case $answer in [yY]*) as_root=sudo ;; *) return 1 ;; esac
    fi
    echo "installing: $missing"
    # shellcheck disable=SC2086
    $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
        --no-install-recommends $missing
}
