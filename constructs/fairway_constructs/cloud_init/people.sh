#!/usr/bin/env bash
# Gives each person of the environment an account of their own: the same user id on every machine,
# a home that is closed to others, their public keys, and sudo only where it was said. Runs at each
# boot and when the list changes; may be run by hand at any time, and changes nothing that is right.
# With --fence it only keeps the machine's identity from their programs, early at each boot; with
# --home NAME UID it only fills a person's home.
set -euo pipefail

# One key a line: account, user id, whether it may use sudo, the key.
people=${FAIRWAY_PEOPLE:-/etc/fairway/people}
shares=${FAIRWAY_PEOPLE_SHARES:-/etc/fairway/people-shares}
sudoers=${FAIRWAY_SUDOERS:-/etc/sudoers.d}
# Seconds for what one person's home needs.
patience=${FAIRWAY_PEOPLE_PATIENCE:-60}
# The numbers that people's accounts have.
first=20000
last=59999

# The same as iptables makes below, as a table of its own that is replaced as a whole.
nft_rules='
add table ip fairway
delete table ip fairway
table ip fairway {
    chain output {
        type filter hook output priority filter; policy accept;
        ip daddr 169.254.169.254 meta skuid 2000-60999 reject
        ip daddr 169.254.169.254 meta skuid 65536-4294967294 reject
    }
}'

say() { printf 'fairway-people: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

as() { runuser -u "$1" -- "${@:2}"; }

# Any program that asks Azure's metadata service gets a token of the machine's identity, which may read
# Slurm's key. Root, the login user and services have numbers that are left out: those of systemd's
# own making are up to 65519, and Slurm's user, by which the scheduler asks Azure for nodes, is 64030
# in Debian's packages. Users of containers have numbers far above. Source: Azure documentation, "How
# to use managed identities for Azure resources on an Azure VM": any code on the VM can ask.
fence_identity() {
    local uids rule
    [[ -n $FENCE ]] || return 0
    # An image has one of the two; with iptables Docker's own rules stand in the same table.
    if ! command -v iptables >/dev/null; then
        command -v nft >/dev/null || die "iptables and nft are missing: no account is made"
        nft --file - <<<"$nft_rules"
        return 0
    fi
    for uids in 2000-60999 65536-4294967294; do
        rule=(
            OUTPUT --destination 169.254.169.254/32
            --match owner --uid-owner "$uids" --jump REJECT
        )
        iptables --wait --check "${rule[@]}" 2>/dev/null || iptables --wait --insert "${rule[@]}"
    done
}

# The runs of the login user are not for everybody either.
close_runs() {
    # shellcheck disable=SC2153 # from the settings
    if [[ -d $1 && $(stat -c %u "$1") == "$(id -u "$ADMIN")" ]]; then
        as "$ADMIN" chmod 700 "$1"
    fi
}

# The folder of the homes, where every person may make a folder and only its owner removes it.
make_place() {
    local owner
    if [[ -z $MOUNT ]]; then
        mkdir -p "$HOMES"
    else
        # Never on the folder below a file system that is not there.
        mountpoint -q "$MOUNT" || die "$MOUNT is not mounted"
        # As the login user: the exports refuse root.
        as "$ADMIN" mkdir -p -m 1777 "$HOMES"
        close_runs "$MOUNT/fairway"
    fi
    owner=$(stat -c %u "$HOMES")
    [[ $owner == 0 || $owner == "$(id -u "$ADMIN")" ]] ||
        die "$HOMES belongs to user $owner, who could take every home away"
}

# Where the runs of all people queue. None of them makes anything beside these folders: jobs start on
# the hosts that one of them names.
make_queue() {
    local place=$QUEUE/clusters/$CLUSTER folder
    [[ -n $QUEUE ]] || return 0
    if [[ -z $QUEUE_MOUNT ]]; then
        install -d -o "$ADMIN" "$QUEUE"
    else
        mountpoint -q "$QUEUE_MOUNT" || die "$QUEUE_MOUNT is not mounted"
    fi
    for folder in "$QUEUE" "$QUEUE/clusters" "$place"; do
        as "$ADMIN" mkdir -p "$folder"
        [[ $(as "$ADMIN" stat -c '%u %F' "$folder") == "$(id -u "$ADMIN") directory" ]] ||
            die "$folder is not a folder of $ADMIN's: remove it"
    done
    as "$ADMIN" mkdir -p -m 1777 "$place/nodes" "$place/queue"
    as "$ADMIN" touch "$place/queue.lock"
    as "$ADMIN" chmod 666 "$place/queue.lock"
}

make_account() {
    local name=$1 uid=$2 admin=$3 shell=/bin/bash
    [[ -n $LOGIN || $admin == yes ]] || shell=/usr/sbin/nologin
    getent group "$name" >/dev/null || groupadd --gid "$uid" "$name"
    # No password opens it. Without one at all it counts as locked, also for keys where sshd has no PAM.
    getent passwd "$name" >/dev/null || useradd --uid "$uid" --gid "$uid" --no-create-home \
        --home-dir "$HOMES/$name" --shell "$shell" --password "*" "$name"
    [[ $(id -u "$name"):$(id -g "$name") == "$uid:$uid" ]] ||
        die "$name is an account with another user id than $uid"
    usermod --shell "$shell" --expiredate "" "$name"
}

make_home() {
    local name=$1 uid=$2 home=$HOMES/$1
    if [[ -n $MOUNT ]]; then
        as "$name" mkdir -p -m 700 "$home"
    elif [[ ! -e $home ]]; then
        install -d -m 700 -o "$name" -g "$name" "$home"
    fi
    [[ ! -L $home && $(stat -c %u "$home") == "$uid" ]] ||
        die "$home does not belong to $name: move it away"
}

# By which the nodes let the person in from one another: one for all, in the home that they share,
# made by the node that comes first.
make_peer_key() {
    local key=$HOMES/$1/.ssh/id_fairway
    [[ -n $QUEUE_MOUNT ]] || return 0
    as "$1" mkdir -p -m 700 "${key%/*}"
    ! as "$1" test -e "$key.pub" || return 0
    # shellcheck disable=SC2016 # $1 is the inner shell's
    as "$1" flock "$key.lock" bash -c \
        '[[ -e $1.pub ]] || { rm -f "$1" && ssh-keygen -q -t ed25519 -N "" -C fairway -f "$1"; }' \
        bash "$key"
}

# What people add themselves stays; what was taken out of the list goes. A file that cannot be read now
# stays as it is: only find tells it from one that is not there. A device or a pipe has no end.
keep_keys() {
    local name=$1 file=$HOMES/$1/.ssh/authorized_keys old new
    as "$name" mkdir -p -m 700 "${file%/*}"
    old=$(as "$name" find -L "${file%/*}" -maxdepth 1 -name "${file##*/}" \
        \( -type f -size -1024k -exec head -c 1M {} + -o -exec false {} + \))
    new=$(
        sed '/^# fairway: begin$/,/^# fairway: end$/d' <<<"$old" | sed '/^$/d'
        printf '# fairway: begin\n'
        awk -v name="$name" '$1 == name { $1 = $2 = $3 = ""; sub(/^ +/, ""); print }' "$people"
        [[ -z $QUEUE_MOUNT ]] || as "$name" head -c 1K "${file%/*}/id_fairway.pub"
        printf '# fairway: end\n'
    )
    [[ $old != "$new" ]] || return 0
    # Whole or not at all: another machine may do the same now.
    printf '%s\n' "$new" | as "$name" tee "$file.$(hostname).$$" >/dev/null
    as "$name" chmod 600 "$file.$(hostname).$$"
    as "$name" mv -f "$file.$(hostname).$$" "$file"
}

# People can break their own homes (a link, a file named .ssh, no room left): that costs them their
# keys, and nobody else an account. In a process of its own: their programs can keep a lock or a pipe
# open for ever, and what waits for them ends with it.
fill_home() { timeout --kill-after=5 "$patience" "$BASH" "${BASH_SOURCE[0]}" --home "$@" </dev/null; }

# Docker's daemon does for its group what root may do. The devices of AMD's GPUs are open to their
# groups alone. Source: AMD documentation, ROCm on Linux, "Configuring permissions for GPU access".
keep_rights() {
    local name=$1 admin=$2 file=$sudoers/90-fairway-$1 groups rule group
    for group in render video; do
        if getent group "$group" >/dev/null; then usermod --append --groups "$group" "$name"; fi
    done
    groups=" $(id -nG "$name") "
    rule="$name ALL=(ALL) NOPASSWD:ALL"
    if [[ $admin == yes ]]; then
        if [[ ! -e $file || $(<"$file") != "$rule" ]]; then
            # sudo reads no file with a dot in its name.
            install -m 440 /dev/stdin "$file.new" <<<"$rule"
            mv -f "$file.new" "$file"
        fi
        if getent group docker >/dev/null; then usermod --append --groups docker "$name"; fi
    else
        rm -f "$file"
        if [[ $groups == *" docker "* ]]; then gpasswd --delete "$name" docker >/dev/null; fi
    fi
}

# Who is no longer in the list has files, and no way in.
lock_others() {
    local name rest uid
    while IFS=: read -r name rest uid rest; do
        ((uid >= first && uid <= last)) || continue
        if ! grep -q "^$name " "$people"; then
            usermod --expiredate 1 --shell /usr/sbin/nologin "$name"
            rm -f "$sudoers/90-fairway-$name"
        fi
    done < <(getent -s files passwd)
}

# Where jobs run. Whoever has an account gets in also where this fails, as without the internet.
let_run_containers() {
    [[ -n $CONTAINERS ]] || return 0
    /usr/local/sbin/fairway-containers ||
        say "only administrators run containers here until that is put right"
}

# The accounting of Slurm's scheduler knows them too; a service that is not up yet is asked again.
keep_shares() {
    [[ -s $shares ]] || return 0
    (
        # shellcheck source=slurm_scheduler.sh disable=SC1091 # how it keeps rules of its own
        source "${FAIRWAY_SLURM_SCHEDULER:-/usr/local/sbin/fairway-slurm-scheduler}"
        # shellcheck disable=SC2034 # keep_rules reads it
        rules=$shares
        keep_rules
    )
}

main() {
    local name uid admin again=""
    # shellcheck source=/dev/null
    source "${FAIRWAY_PEOPLE_SETTINGS:-/etc/fairway/people-settings}"
    if [[ ${1:-} == --home ]]; then
        make_home "$2" "$3"
        make_peer_key "$2"
        keep_keys "$2"
        return 0
    fi
    fence_identity
    [[ ${1:-} != --fence ]] || return 0
    lock_others
    make_place
    make_queue
    while read -r name uid admin; do
        make_account "$name" "$uid" "$admin"
        keep_rights "$name" "$admin"
        fill_home "$name" "$uid" || again+="$name $uid"$'\n'
    done < <(awk '!seen[$1]++ { print $1, $2, $3 }' "$people")
    # Once more after everybody else: at a cluster's first boot every node wants each person's lock.
    while read -r name uid; do
        fill_home "$name" "$uid" || say "$name has no keys here until that is put right"
    done < <(printf %s "$again")
    let_run_containers
    keep_shares
    say "ready"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main "$@"
fi
