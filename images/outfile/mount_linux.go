package outfile

import "golang.org/x/sys/unix"

// isMount reports whether a file is a mount, as single files of a container often are. A rename
// over it would fail with EBUSY. Kernels before 5.8 do not say.
func isMount(path string) bool {
	var st unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &st) == nil &&
		st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
