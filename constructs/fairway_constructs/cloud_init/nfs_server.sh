#!/usr/bin/env bash
# Serves the data disks of this VM over NFS: one striped volume, one XFS, one export.
# Runs at each boot; may be run by hand at any time. It makes a file system only where there
# is none, touches no disk that holds anything else, and takes new disks in without loss.
#
# The stripe is LVM's and not mdadm's: a volume grows by a second set of disks, or by larger
# ones, in a moment and while it is mounted. An mdadm array of level 0 must move every block
# to take a disk in, and does not survive being interrupted without a backup file.
set -euo pipefail

say() { printf 'fairway-nfs-server: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# The block device of a LUN, whichever way this image and controller name it.
device_of() {
    local lun=$1 link controller
    for link in "/dev/disk/azure/data/by-lun/$lun" "/dev/disk/azure/scsi1/lun$lun"; do
        if [[ -b $link ]]; then
            readlink -f "$link"
            return
        fi
    done
    # With an NVMe controller the system disk is namespace 1 and LUN n is namespace n + 2.
    for controller in /sys/class/nvme/nvme*; do
        link=/dev/${controller##*/}n$((lun + 2))
        if grep -qs 'MSFT NVMe Accelerator' "$controller/model" && [[ -b $link ]]; then
            printf '%s\n' "$link"
            return
        fi
    done
    return 1
}

# Whether nothing at all is on a device; anything but a clear answer is a no.
is_blank() {
    local status=0
    blkid -p "$1" >/dev/null 2>&1 || status=$?
    ((status == 2))
}

field() { "$@" | tr -d ' '; }

# Terraform attaches the disks after the VM is there: a set that is not whole yet is not used.
collect_disks() {
    local lun disk
    disks=()
    # shellcheck disable=SC2153 # from the settings
    for ((lun = 0; lun < DISKS; lun++)); do
        disk=$(device_of "$lun") || die "LUN $lun of $DISKS is not attached yet"
        disks+=("$disk")
    done
}

# Sorts the disks: already ours, blank, or somebody's, which ends it.
find_new_disks() {
    local disk group
    new=()
    for disk in "${disks[@]}"; do
        if is_blank "$disk"; then
            new+=("$disk")
            continue
        fi
        [[ $(blkid -p -s TYPE -o value "$disk" || true) == LVM2_member ]] ||
            die "$disk holds something that this script did not make: nothing was changed"
        group=$(field pvs --noheadings -o vg_name "$disk")
        if [[ -z $group ]]; then
            new+=("$disk")
        elif [[ $group != "$NAME" ]]; then
            die "$disk belongs to volume group $group: nothing was changed"
        fi
    done
}

make_or_grow_volume() {
    local grown=()
    if ! vgs "$NAME" >/dev/null 2>&1; then
        # All are new, or the group is there and cannot be read.
        ((${#new[@]} == ${#disks[@]})) || die "volume group $NAME cannot be read"
        vgcreate "$NAME" "${new[@]}"
        lvcreate --yes --name data --extents 100%FREE \
            --stripes "${#new[@]}" --stripesize 256k "$NAME"
        return
    fi
    [[ $(field vgs --noheadings -o vg_missing_pv_count "$NAME") == 0 ]] ||
        die "volume group $NAME lacks a disk: nothing was changed"
    ((${#new[@]} == 0)) || vgextend "$NAME" "${new[@]}"
    pvresize --quiet "${disks[@]}"
    mapfile -t grown < <(pvs --noheadings -o pv_name --select "vg_name=$NAME && pv_free>0")
    ((${#grown[@]} == 0)) ||
        lvextend --extents +100%FREE --stripes "${#grown[@]}" --stripesize 256k \
            "$NAME/data" "${grown[@]//[[:space:]]/}"
}

mount_volume() {
    local uuid made=""
    if is_blank "$device"; then
        mkfs.xfs -q "$device"
        made=yes
    fi
    uuid=$(blkid -p -s UUID -o value "$device") || die "$device holds no file system"
    mkdir -p "$EXPORT"
    grep -qs "^UUID=$uuid " /etc/fstab ||
        printf 'UUID=%s %s xfs noatime,inode64,nofail 0 0\n' "$uuid" "$EXPORT" >>/etc/fstab
    mountpoint -q "$EXPORT" || mount "$EXPORT"
    # As in /tmp: every user may make a folder, and only its owner removes it.
    [[ -z $made ]] || chmod 1777 "$EXPORT"
    xfs_growfs "$EXPORT" >/dev/null
}

main() {
    # shellcheck source=/dev/null
    source /etc/fairway/settings
    device=/dev/$NAME/data
    collect_disks
    find_new_disks
    make_or_grow_volume
    mount_volume
    systemctl enable --now nfs-server.service
    exportfs -ra
    say "$EXPORT is exported"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    main
fi
