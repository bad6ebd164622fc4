#!/usr/bin/env bash
# Brings the scheduler of a Slurm cluster up: the disk with its state, the munge key, the
# database of its accounting, slurmctld, and what names nodes and looks after them. Runs at each
# boot; may be run by hand at any time, and changes nothing that is right.
set -euo pipefail

slurm_etc=${FAIRWAY_SLURM_ETC:-/etc/slurm}
log=${FAIRWAY_SLURM_LOG:-/var/log/slurm}
hosts=${FAIRWAY_HOSTS_FILE:-/etc/hosts}
rules=${FAIRWAY_SLURM_RULES:-/etc/fairway/slurm-rules}

load() {
    # shellcheck source=/dev/null
    source "${FAIRWAY_VOLUME_SCRIPT:-/usr/local/lib/fairway/volume.sh}"
    # shellcheck source=/dev/null
    source "${FAIRWAY_SLURM_DISK:-/etc/fairway/slurm-settings}"
}

# The same as on a file server: made where there is nothing, grown where there is room.
mount_state() {
    # shellcheck disable=SC2034 # the file server's functions read it
    device=/dev/$NAME/data
    collect_disks
    find_new_disks
    make_or_grow_volume
    mount_volume
    chmod 755 "$EXPORT"
    install -d -m 700 -o slurm -g slurm "$EXPORT/state" "$EXPORT/nodes"
    install -d -m 755 -o slurm -g slurm "$log"
    # Root writes there first, and the programs of slurmctld after it.
    [[ -e $log/fairway.log ]] || install -m 640 -o slurm -g slurm /dev/null "$log/fairway.log"
}

# A user of the database is who the kernel says that it is: there is no password.
start_database() {
    local data=$EXPORT/mysql
    install -d -m 750 -o mysql -g mysql "$data"
    [[ -d $data/mysql ]] || mariadb-install-db --user=mysql --datadir="$data" \
        --auth-root-authentication-method=socket --skip-test-db >/dev/null
    systemctl start mariadb.service
    mariadb <<'SQL'
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'localhost';
SQL
}

start_accounting() {
    chown slurm:slurm "$slurm_etc/slurmdbd.conf"
    chmod 600 "$slurm_etc/slurmdbd.conf"
    systemctl start slurmdbd.service
    # slurmctld asks it for the cluster's history when it starts.
    for _ in {1..60}; do
        if timeout 5 sacctmgr --noheader list cluster >/dev/null 2>&1; then
            return
        fi
        sleep 1
    done
    printf 'fairway-slurm-scheduler: slurmdbd does not answer\n' >&2
    return 1
}

# Accounts and qualities of service. What is there already is no fault, and all else is: a job that
# names an account which is not there is refused.
keep_rules() {
    local words said
    while read -ra words; do
        ((${#words[@]} > 0)) || continue
        said=$(sacctmgr --immediate "${words[@]}" 2>&1 </dev/null) && continue
        case $said in
            *'othing new added'* | *'lready exist'*) ;;
            *)
                printf 'fairway-slurm-scheduler: sacctmgr %s: %s\n' "${words[*]}" "$said" >&2
                return 1
                ;;
        esac
    done <"$rules"
}

# A node that has not come has no address. slurmctld then looks its name up for ten seconds when a
# job goes back to the queue, one node after the other, and answers nobody: so it finds an address
# to which the kernel at once knows no way. Where a node registered from takes precedence.
name_nodes() {
    local list range draft
    draft=$(mktemp "$hosts.XXXXXX")
    sed '/# fairway$/d' "$hosts" >"$draft"
    sed -nE 's/^NodeName=([^ ]+) .*State=CLOUD.*/\1/p' "$slurm_etc/slurm.conf" |
        while read -r list; do
            # nd-[0-15], or nd-0 where it is the only one.
            if [[ $list == *"]" ]]; then
                range=${list##*\[}
                range=${range%"]"}
                seq -f "255.255.255.255 ${list%\[*}%.0f # fairway" "${range%-*}" "${range#*-}"
            else
                printf '255.255.255.255 %s # fairway\n' "$list"
            fi
        done >>"$draft"
    chmod 644 "$draft"
    mv "$draft" "$hosts"
}

main() {
    load
    name_nodes
    mount_state
    systemd-tmpfiles --create fairway-slurm.conf
    python3 -B -m fairway_boot.slurm.munge
    systemctl start munge.service
    if [[ -n $ACCOUNTING ]]; then
        start_database
        start_accounting
        keep_rules
    fi
    systemctl start slurmctld.service fairway-slurm-claims.service
    systemctl start fairway-slurm-reconcile.timer
    printf 'fairway-slurm-scheduler: ready\n' >&2
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
