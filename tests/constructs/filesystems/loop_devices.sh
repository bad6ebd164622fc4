#!/usr/bin/env bash
# Runs the file server's script on loop devices: loop_devices.sh SCRIPT FOLDER.
#
# Real are LVM's volume groups, XFS, the mounts and the exports. Stand-ins are the two commands
# for which a kernel needs the device mapper: the volume is a loop device of its own, which
# "lvextend" enlarges. systemctl is left out. Meant for a mount namespace of its own
# (`unshare --mount`): /etc, /dev/disk and /var/lib/nfs are copies. Prints what the test asks for.
set -euo pipefail

script=$1 folder=$2
export NAME=fairway$$ VOLUME_FILE=$folder/volume TAKEN=$folder/taken LOG=$folder/log
export LVM_SUPPRESS_FD_WARNINGS=1
export EXPORT=$folder/export
loops=()

clean_up() {
    umount "$EXPORT" 2>/dev/null || true
    vgremove --force --yes "$NAME" >/dev/null 2>&1 || true
    ((${#loops[@]} == 0)) || losetup -d "${loops[@]}"
    rm -rf "/dev/${NAME:?}"
}
trap clean_up EXIT

new_loop() {
    truncate -s "$2" "$1"
    loop=$(losetup --find --show "$1")
    loops+=("$loop")
}

copy_system() {
    cp -a /etc "$folder/etc"
    mount --bind "$folder/etc" /etc
    mkdir -p "$folder/nfs" /etc/fairway /etc/exports.d /dev/disk
    [[ ! -d /var/lib/nfs ]] || cp -a /var/lib/nfs/. "$folder/nfs"
    mount --bind "$folder/nfs" /var/lib/nfs
    mount -t tmpfs none /dev/disk
    mkdir -p /dev/disk/azure/data/by-lun
    printf '%s 10.0.0.0/17(rw,sync,root_squash,no_subtree_check,mountpoint)\n' "$EXPORT" \
        >/etc/exports.d/fairway.exports
}

stand_in() { printf '#!/usr/bin/env bash\nset -euo pipefail\n%s\n' "$2" >"$folder/bin/$1"; }

make_stand_ins() {
    mkdir "$folder/bin"
    PVS=$(command -v pvs) && export PVS
    stand_in systemctl ':'
    # shellcheck disable=SC2016 # for the stand-ins themselves
    {
        stand_in lvcreate 'echo "lvcreate $*" >>"$LOG"
mkdir -p "/dev/$NAME" && ln -sfn "$VOLUME" "/dev/$NAME/data"
"$PVS" --noheadings -o pv_name --select "vg_name=$NAME" >"$TAKEN"'
        stand_in lvextend 'echo "lvextend $*" >>"$LOG"
truncate -s +1G "$VOLUME_FILE" && losetup -c "$VOLUME"
"$PVS" --noheadings -o pv_name --select "vg_name=$NAME" >"$TAKEN"'
        # Without an allocation of LVM'"'"'s, what is free must be told from what the stand-ins took.
        stand_in pvs 'case $* in
*pv_free*) "$PVS" --noheadings -o pv_name --select "vg_name=$NAME" | grep -vxFf "$TAKEN" || true ;;
*) exec "$PVS" "$@" ;;
esac'
        stand_in mkfs.xfs 'echo "mkfs.xfs $*" >>"$LOG"; exec '"$(command -v mkfs.xfs)"' "$@"'
    }
    chmod +x "$folder/bin"/*
    PATH=$folder/bin:$PATH
}

attach() {
    new_loop "$folder/disk$1" 512M
    ln -s "$loop" "/dev/disk/azure/data/by-lun/$1"
}

boot() {
    printf 'NAME=%s\nDISKS=%s\nEXPORT=%s\n' "$NAME" "$1" "$EXPORT" >/etc/fairway/settings
    bash "$script"
}

state() {
    printf '%s.uuid %s\n' "$1" "$(blkid -p -s UUID -o value "$VOLUME")"
    printf '%s.bytes %s\n' "$1" "$(stat -f -c '%b*%S' "$EXPORT")"
    printf '%s.disks %s\n' "$1" "$("$PVS" --noheadings -o pv_name --select "vg_name=$NAME" | wc -l)"
    printf '%s.fstab %s\n' "$1" "$(grep -c " $EXPORT " /etc/fstab)"
    printf '%s.mode %s\n' "$1" "$(stat -c %a "$EXPORT")"
    printf '%s.kept %s\n' "$1" "$(cat "$EXPORT/kept" 2>/dev/null || echo nothing)"
    printf '%s.exported %s\n' "$1" "$(exportfs -s | grep -c "^$EXPORT .*root_squash")"
}

copy_system
make_stand_ins
new_loop "$VOLUME_FILE" 1G
export VOLUME=$loop
attach 0
attach 1

boot 2
state first
echo precious >"$EXPORT/kept"
chmod 750 "$EXPORT"

boot 2
state again

umount "$EXPORT"
boot 2
state rebooted

attach 2
boot 3
state grown

# A disk with somebody's data: nothing may happen to it, nor to the volume.
attach 3
mkfs.ext4 -q "/dev/disk/azure/data/by-lun/3"
if boot 4 2>"$folder/refused"; then echo "refused.status 0"; else echo "refused.status $?"; fi
printf 'refused.type %s\n' "$(blkid -p -s TYPE -o value "$loop")"
state refused
sed 's/^/log /' "$LOG"
