# Tells whether a disk is nobody's: no mount, no partition, and no file system but one of ours.
# Azure Batch mounts the disks itself where a size has no other temporary disk, and AKS may have
# the system on one.
is_free() {
    local mounted found
    mounted=$(lsblk -nro MOUNTPOINT "$1" | tr -d '[:space:]')
    # 2: nothing is on it. With anything else that blkid does not understand it is not ours.
    found=$(blkid -p -s TYPE -s PTTYPE -o value "$1") || (($? == 2)) || return 1
    [[ -z $mounted && ${found:-xfs} =~ ^(xfs|linux_raid_member)$ ]]
}

# Stripes the local NVMe disks that are free, and mounts them at a folder. They lose their content
# whenever the VM moves, so making the file system anew is right whenever there is none.
mount_scratch() {
    local scratch=$1 found=() disks=() disk device
    mountpoint -q "$scratch" && return
    mapfile -t found < <(lsblk -dnpo NAME,MODEL | awk '/NVMe Direct Disk/ { print $1 }' | sort)
    for disk in "${found[@]}"; do
        ! is_free "$disk" || disks+=("$disk")
    done
    ((${#disks[@]} > 0)) || return 0
    if ((${#disks[@]} == 1)); then
        device=${disks[0]}
    else
        mdadm --assemble --scan --quiet || true
        device=$(lsblk -nrpo NAME,TYPE "${disks[0]}" | awk '$2 == "raid0" { print $1; exit }')
        if [[ -z $device ]]; then
            device=/dev/md/fairway-scratch
            mdadm --create "$device" --run --quiet --homehost=any --level=0 \
                --raid-devices="${#disks[@]}" "${disks[@]}"
        fi
    fi
    # -K: the disks are fresh, and to discard 28 TB of them takes a minute.
    [[ $(blkid -p -s TYPE -o value "$device" || true) == xfs ]] || mkfs.xfs -q -f -K "$device"
    mkdir -p "$scratch"
    mount -o noatime,inode64 "$device" "$scratch"
    chmod 1777 "$scratch"
}
