// Package driverroot puts the driver's user-mode files where the rest of the node looks for them: a root folder with libraries,
// programs, firmware, sources and modules, mounted at /run/nvidia/driver, or linked there where the container may not mount.
//
// Where the host lends storage, the image's root is copied there once and bound from there: such a root outlives the container.
// Else the container's own root is bound, as NVIDIA's container does it, and dies with the container. There is never more than
// one layer at the target, and what is mounted comes in one step, complete.
//
// It does not decide when a root may be taken away (a root must stay while modules are loaded for workloads), takes no lock, and
// knows nothing of modules but where their files belong.
package driverroot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Root says what has to be served and where. The zero values of Storage and HostDev choose NVIDIA's layout.
type Root struct {
	Target  string // where consumers look: "/run/nvidia/driver"
	Image   string // the root of the driver image: "/" in the container
	Storage string // a folder that the host owns: "/var/lib/nvidia-driver"; "" binds the image instead of a copy
	ID      string // identity of the image's content, 64 hex digits (driverinfo.Info.ID)
	Version string // of the driver: "535.261.03"
	// HostDev says that device nodes are made in the host's /dev. A staged root has neither dev nor sys then, by which consumers
	// know that they have to look at the host's. A bound image always has both.
	HostDev bool
	// NoMounts says that this container may not mount, nor change its root, nor give files to other users: it is not privileged. A
	// root is then made without any of that, and served by Link.
	NoMounts bool
	Say      func(format string, args ...any) // a line for the log; nil for none

	init string // process 1 in procfs, through which the image's layers are found; "" is "/proc/1"
}

// Staged is a root that is complete and can be mounted.
type Staged struct {
	Root   Root
	Dir    string // what gets bound: a folder in Storage, or Image
	Reused bool   // it was there already
}

// Errors to test for with errors.Is, besides those of the kernel, which are wrapped (unix.ENOSPC).
var (
	// ErrDeep says that a tree has more nested folders than any driver image.
	ErrDeep = errors.New("folders are nested too deep")
	// ErrChanged says that a file of the image changed while it was copied.
	ErrChanged = errors.New("the file changed while it was copied")
)

// MountedError says that the target has mounts already. Unmount removes them; Adoptable says whether they can be kept.
type MountedError struct {
	Target string
	Mounts []Mount
}

func (e *MountedError) Error() string {
	return fmt.Sprintf("%s has %d mount(s) already, the first from %s: unmount or adopt them first", e.Target, len(e.Mounts), e.Mounts[0].Source)
}

// NotSharedError is a warning: everything is mounted, but nobody outside of this container can see it.
type NotSharedError struct{ Target, Parent string }

func (e *NotSharedError) Error() string {
	return fmt.Sprintf("the mount %s, in which %s lies, is not shared: the driver root is seen in this container only; mount the host's /run/nvidia with mountPropagation: Bidirectional", e.Parent, e.Target)
}

// The folders in a root that are the system's or the container's: a copy has them empty. dev and sys are made by Mount.
var emptied = map[string]bool{"proc": true, "run": true, "tmp": true, "var/tmp": true, "var/run": true, "var/lock": true, "var/cache": true, "var/lib/apt/lists": true}

// leftOut is what only compiling or reading needs. Compiling happens in the container, never in the served root; usr/src stays,
// since containers for GPUDirect Storage and GDRCopy compile against it with compilers of their own. Most of an image's files are
// Perl's, which compiling needs, time zones and descriptions of packages; a Perl without them works (perl-base), as does dpkg -l.
var leftOut = map[string]bool{
	"dev": true, "sys": true,
	"usr/lib/gcc": true, "usr/lib64/gcc": true, "usr/libexec/gcc": true, "opt/rh": true,
	"usr/share/doc": true, "usr/share/man": true, "usr/share/info": true, "usr/share/bug": true, "usr/share/lintian": true,
	"usr/share/bash-completion": true, "usr/share/zoneinfo": true, "var/lib/dpkg/info": true,
	"usr/share/perl": true, "usr/share/perl5": true, "usr/lib64/perl5": true, "usr/lib/x86_64-linux-gnu/perl": true, "usr/lib/aarch64-linux-gnu/perl": true,
}

// runDirs are the folders of the daemons' sockets, which clients look up below the driver root.
var runDirs = []string{"run/nvidia-persistenced", "run/nvidia-fabricmanager", "run/nvidia-topologyd"}

const (
	rootsDir  = "roots"
	tmpPrefix = ".tmp-"
	badPrefix = ".bad-"
)

var (
	versionFormat = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,6}){1,3}$`)
	idFormat      = regexp.MustCompile(`^[0-9a-f]{12,64}$`)
)

// name is the folder's name below Storage/roots: "535.261.03-0123456789ab".
func (r Root) name() (string, error) {
	if !versionFormat.MatchString(r.Version) {
		return "", fmt.Errorf("driver version %q: want numbers and dots, as 535.261.03", r.Version)
	}
	if !idFormat.MatchString(r.ID) {
		return "", fmt.Errorf("identity of the image %q: want at least 12 hex digits", r.ID)
	}
	return r.Version + "-" + r.ID[:12], nil
}

func (r Root) say(format string, args ...any) {
	if r.Say != nil {
		r.Say(format, args...)
	}
}

// RunDirs makes the folders of the daemons' sockets in the image's /run. It has to be called before daemons start: one that
// finds no folder makes it and removes it at its end, and what is bound from it would show the removed one for ever.
func (r Root) RunDirs() error {
	for _, dir := range runDirs {
		if err := os.MkdirAll(filepath.Join(r.Image, dir), 0o755); err != nil {
			return fmt.Errorf("make the folder of a daemon's socket: %w", err)
		}
	}
	return nil
}

// realPath resolves links in all of path that exists, since mountinfo has no links in its paths.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		found, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(found, rest), nil
		}
		if !errors.Is(err, os.ErrNotExist) || at == "/" {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}
