package verify

import (
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// privileged are the programs of distributions that have setuid, setgid or capabilities, and
// NVIDIA's one: for every user, it loads the module and makes the device files.
var privileged = []string{
	"nvidia-modprobe",
	"su", "sudo", "sudoedit", "mount", "umount", "passwd", "newgrp", "sg", "gpasswd", "chsh", "chfn", "chage", "expiry", "unix_chkpwd", "unix2_chkpwd", "pam_extrausers_chkpwd",
	"pam_timestamp_check", "userhelper", "pkexec", "polkit-agent-helper-1", "dbus-daemon-launch-helper", "ssh-keysign", "ssh-agent", "crontab", "at",
	"write", "wall", "utempter", "fusermount", "fusermount3", "newuidmap", "newgidmap", "ping", "ping6", "arping", "clockdiff", "mtr-packet", "usernetctl",
	"locate", "plocate", "slocate", "staprun", "lockfile", "dotlockfile", "netreport", "gst-ptp-helper", "ksu", "mount.nfs", "mount.cifs", "mount.ecryptfs_private",
}

// checkPrivileges: a program that runs with more rights than its user has to be one that is known
// to need them.
func checkPrivileges(s *subject) {
	for _, e := range s.all {
		for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
			if recipe.HasPrefix([]string{"trusted.overlay.", "user.overlay."}, name) {
				s.fail(
					e.Path,
					"has the extended attribute %.100q: on a node it hides files of the image, or shows others",
					name,
				)
			}
		}
		if e.Kind == rootfs.Special && !recipe.InFolder(e.Path, "dev") {
			s.fail(
				e.Path,
				"is a %.100s: neither a driver nor a distribution has devices or FIFOs outside of /dev",
				e.Target,
			)
		}
		if e.Kind != rootfs.File ||
			e.Mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 && e.Xattrs["security.capability"] == "" {
			continue
		}
		if name := path.Base(e.Path); !slices.Contains(privileged, name) ||
			!recipe.HasPrefix(programFolders, e.Path) {
			s.fail(
				e.Path,
				"runs with the rights of %d:%d (mode %04o) or with capabilities: no driver and no distribution has such a program",
				e.UID,
				e.GID,
				rootfs.UnixMode(e.Mode),
			)
		}
	}
	for _, f := range s.drivers {
		if path.Base(f.Path) == "nvidia-modprobe" && (f.Mode&fs.ModeSetuid == 0 || f.UID != 0) {
			s.fail(
				f.Path,
				"is not setuid root (mode %04o): other users' programs cannot make the device files with it",
				rootfs.UnixMode(f.Mode),
			)
		}
	}
}

// programFolders have the programs of distributions, and those that run for them.
var programFolders = []string{
	"bin/",
	"sbin/",
	"usr/bin/",
	"usr/sbin/",
	"usr/lib/",
	"usr/lib64/",
	"usr/libexec/",
	"lib/",
	"lib64/",
}

// checkPermissions: consumers of any user read the driver's files, and only root may change them.
// The same holds for everything in the folders that the dynamic loader searches.
func checkPermissions(s *subject) {
	for _, e := range s.all {
		dir, name := path.Split(e.Path)
		if e.Kind == rootfs.File && e.Mode&0o002 != 0 &&
			slices.Contains(s.libraryDirs, path.Clean(dir)) &&
			!driverName.MatchString(name) {
			s.fail(e.Path, "can be changed by every user (mode %04o)", rootfs.UnixMode(e.Mode))
		}
	}
	seen := map[string]bool{}
	for _, f := range s.drivers {
		want := fs.FileMode(0o555)
		if f.library {
			want = 0o444
		}
		s.checkAccess(f.Entry, want)
		for dir := path.Dir(f.Path); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			if e, ok := s.tree.Lstat(dir); ok {
				s.checkAccess(e, 0o555)
			}
		}
	}
}

// checkAccess checks the owner of an entry, that all users have the wanted rights, and that only
// root can write. The group may own a folder and write there: in images of Debian it does in
// usr/local.
func (s *subject) checkAccess(e *rootfs.Entry, want fs.FileMode) {
	others := fs.FileMode(0o022)
	if e.Kind == rootfs.Dir {
		others = 0o002
	}
	switch {
	case e.UID != 0 || e.GID != 0 && e.Kind != rootfs.Dir:
		s.fail(e.Path, "belongs to %d:%d, not to root", e.UID, e.GID)
	case e.Mode&want != want:
		s.fail(e.Path, "has mode %04o: not all users can use it", rootfs.UnixMode(e.Mode))
	case e.Mode&others != 0:
		s.fail(e.Path, "has mode %04o: others than root can change it", rootfs.UnixMode(e.Mode))
	}
}
