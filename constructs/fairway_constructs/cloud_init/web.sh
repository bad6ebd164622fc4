#!/usr/bin/env bash
# Makes a login node the place of the environment's page: its programs, an account for the server, the
# key by which that submits as another account without rights of its own, and the server's project.
# Runs at each boot and when the settings change; may be run again at any time.
set -euo pipefail

place=${FAIRWAY_WEB:-/etc/fairway/web}
programs=${FAIRWAY_WEB_PROGRAMS:-/opt/fairway-web}

say() { printf 'fairway-web: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# What the account has put in its home (a pipe, a device) may never answer.
as() { timeout --kill-after=5 "${FAIRWAY_WEB_PATIENCE:-60}" runuser -u "$1" -- "${@:2}"; }

# apt.sh

install_packages() {
    local package missing=()
    for package in apache2-bin libapache2-mod-auth-openidc openssl python3-venv; do
        dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    apt_update
    apt_get install --no-install-recommends "${missing[@]}"
}

# Below the numbers of people, whose programs get no token of the machine's identities.
make_accounts() {
    getent group "$USER_NAME" >/dev/null || groupadd --gid "$USER_ID" "$USER_NAME"
    getent passwd "$USER_NAME" >/dev/null || useradd --uid "$USER_ID" --gid "$USER_ID" \
        --no-create-home --home-dir "$HOMES/$USER_NAME" --shell /usr/sbin/nologin "$USER_NAME"
    [[ $(id -u "$USER_NAME") == "$USER_ID" ]] || die "$USER_NAME has another user id than $USER_ID"
    getent passwd "$USER_NAME-proxy" >/dev/null || useradd --system --gid "$USER_NAME" \
        --no-create-home --home-dir / --shell /usr/sbin/nologin "$USER_NAME-proxy"
}

# On the file system that outlives this machine, in a folder that is closed to others.
make_project() {
    local home=$HOMES/$USER_NAME
    mountpoint -q "$MOUNT" || die "$MOUNT is not mounted"
    [[ -d $HOMES ]] || die "$HOMES is not there yet"
    as "$USER_NAME" mkdir -p -m 700 "$home"
    [[ ! -L $home && $(stat -c %u "$home") == "$USER_ID" ]] ||
        die "$home does not belong to $USER_NAME: move it away"
    as "$USER_NAME" mkdir -p -m 700 "$home/project" "$home/project/.fairway" "$home/.ssh"
    as "$USER_NAME" tee "$home/project/fairway.yaml" <"$place/fairway.yaml" >/dev/null
    as "$USER_NAME" tee "$home/project/.fairway/targets.json" <"$place/targets.json" >/dev/null
    # shellcheck disable=SC2016 # $1 is the inner shell's
    as "$USER_NAME" bash -c \
        '[[ -e $1.pub ]] || { rm -f "$1" && ssh-keygen -q -t ed25519 -N "" -C "$2" -f "$1"; }' \
        bash "$home/.ssh/id_fairway" "$USER_NAME"
}

# The account's own keys stay; that of the server is there once. A file that cannot be read now stays as
# it is: only find tells it from one that is not there.
open_account() {
    local key file old new
    getent passwd "$ACCOUNT" >/dev/null || die "the account $ACCOUNT is not there yet"
    [[ -d $HOMES/$ACCOUNT ]] || die "$HOMES/$ACCOUNT is not there yet"
    key=$(as "$USER_NAME" cat "$HOMES/$USER_NAME/.ssh/id_fairway.pub")
    file=$HOMES/$ACCOUNT/.ssh/authorized_keys
    as "$ACCOUNT" mkdir -p -m 700 "${file%/*}"
    old=$(as "$ACCOUNT" find -L "${file%/*}" -maxdepth 1 -name "${file##*/}" \
        \( -type f -size -1024k -exec head -c 1M {} + -o -exec false {} + \))
    ! grep -qxF "restrict $key" <<<"$old" || return 0
    new=$(grep -v -e " $USER_NAME\$" -e '^$' <<<"$old" || true)
    printf '%s\n' ${new:+"$new"} "restrict $key" | as "$ACCOUNT" tee "$file.web" >/dev/null
    as "$ACCOUNT" chmod 600 "$file.web"
    as "$ACCOUNT" mv -f "$file.web" "$file"
}

# pip takes only a file with the digest that the settings name.
install_fairway() {
    local own
    # shellcheck disable=SC2153 # from the settings
    own=$programs/$(sha256sum <<<"$PACKAGE" | cut -c -16)
    if [[ ! -e $own/ready ]]; then
        rm -rf "$own"
        python3 -m venv "$own"
        "$own/bin/pip" install --quiet --disable-pip-version-check "fairway-hpc[serve] @ $PACKAGE"
        touch "$own/ready"
    fi
    ln -sfn "$own" "$programs/current"
}

main() {
    # shellcheck source=/dev/null
    source "$place/settings"
    mkdir -p "$programs"
    install_packages
    make_accounts
    make_project
    open_account
    install_fairway
    # By hand and not as dependencies: they are started anew where something of theirs has changed.
    systemctl restart fairway-web-secrets.service fairway-web.service fairway-web-proxy.service
    systemctl start fairway-web-secrets.timer
    say "ready"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
