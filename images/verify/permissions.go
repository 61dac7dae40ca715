package verify

import (
	"io/fs"
	"path"

	"github.com/driver-container/driver-container/images/rootfs"
)

// checkPermissions: consumers of any user read the driver's files, and only root may change them.
func checkPermissions(s *subject) {
	seen := map[string]bool{}
	for _, f := range s.drivers {
		want := fs.FileMode(0o555)
		if f.library {
			want = 0o444
		}
		s.checkAccess(f.Entry, want)
		for dir := path.Dir(f.Path); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			e, ok := s.tree.Lstat(dir)
			if ok {
				s.checkAccess(e, 0o555)
			}
		}
		if path.Base(f.Path) == "nvidia-modprobe" && (f.Mode&fs.ModeSetuid == 0 || f.UID != 0) {
			s.fail(
				f.Path,
				"is not setuid root (mode %04o): other users' programs cannot make the device files with it",
				rootfs.UnixMode(f.Mode),
			)
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
