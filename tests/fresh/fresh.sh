#!/bin/sh
# A Debian with nothing installed, this project copied in, ./dev demo (or COMMAND, as
# ./dev test unit) run there.
# usage: fresh.sh SUITE [COMMAND ...]   The root is made anew and removed.
set -eu
suite=$1
shift
[ $# -gt 0 ] || set -- ./dev demo
top=$(cd "$(dirname "$0")/../.." && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/fresh-$suite.XXXXXX")
chmod 755 "$root" # it becomes /, which everyone may enter
# The mirror that this machine's own apt uses.
mirror=$(apt-get indextargets --format '$(SITE)|$(CODENAME)' 'Created-By: Packages' | sed -n 's/|.*//p' |
	grep -m1 '/debian$' || true)
if [ -z "$mirror" ]; then
	echo "fresh: apt names no Debian mirror" >&2
	exit 1
fi
finish() {
	rm -rf --one-file-system "$root"
}
trap finish EXIT
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || {
	tail -5 "$root.log"
	exit 1
}
rm -f "$root.log"
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
cp -r /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null || true
# Nothing of this is to outlive a loss of power, and waiting for the disk is most of an installation.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fresh"
mkdir -p "$root/src/project" "$root/old"
git -C "$top" ls-files -z -co --exclude-standard |
	(cd "$top" && xargs -0 cp --parents -t "$root/src/project" 2>/dev/null)
# A chroot may make no user namespace, so the new root becomes the root of a mount
# namespace; its mounts go with it.
unshare --mount --propagation private sh -ec '
	root=$1
	shift
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount -t sysfs sys "$root/sys"
	mount -t tmpfs tmpfs "$root/run"
	cd "$root"
	pivot_root . old
	umount -l /old
	cd /src/project
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb "$@"
' sh "$root" "$@"
