# apt waits for dpkg's lock, which the system's own updates may hold for minutes after the first boot.
apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get --quiet=2 --yes \
        -o DPkg::Lock::Timeout=600 -o Acquire::Retries=5 "$@"
}

# The lists of packages have a lock of their own, for which it does not wait.
apt_update() {
    local said
    until said=$(apt_get update 2>&1); do
        if [[ $said != *lists/lock* ]] || ((SECONDS > 600)); then
            printf '%s\n' "$said" >&2
            return 1
        fi
        sleep 5
    done
}
