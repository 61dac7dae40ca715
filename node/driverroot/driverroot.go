// Package driverroot puts the driver's user-mode files where the rest of the node looks for them: a
// root folder with libraries, programs, firmware, sources and modules. The root is mounted at
// /run/nvidia/driver.
//
// When the host provides storage, the image's root is copied there once and bound from there: such
// a root outlives the container. Otherwise the container's own root is bound, as in NVIDIA's
// container, and is gone with the container. There is never more than one layer at the target, and
// a root appears there complete and in one step.
//
// The package does not decide when a root may be removed (a root must stay while modules are loaded
// for workloads) and takes no lock. It knows nothing of modules except where their files belong.
package driverroot

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Root is the driver root of a node: what is served, and where.
type Root struct {
	Target string // where consumers look: "/run/nvidia/driver"
	Image  string // root of the driver image: "/" in the container
	// Storage is a folder on the host's storage: "/var/lib/nvidia-driver"; "" binds the image
	// instead of a copy.
	Storage string
	ID      string // identity of the image's content, 64 hex digits (driverinfo.Description.ID)
	Version string // version of the driver: "535.261.03"
	Release string // of the kernel whose modules AddModules adds: "6.1.0-38-amd64"
	// Baked are the folders of staged roots that Prune leaves: those of drivers that were baked into
	// a machine image, which serve other nodes.
	Baked []string
	// NoMounts says that this container is not privileged: it may not mount, change its root or
	// give files to other users. The root is then made without any of these, and cannot be served.
	NoMounts bool
	Log      *slog.Logger // required

	// init is process 1 in procfs, through which the image's layers are found; "" is "/proc/1".
	init string
}

// emptied are the folders of a root that belong to the system or the container: in a copy they are
// empty. Stage creates mount points, as dev and sys.
var emptied = map[string]bool{
	"proc":              true,
	"run":               true,
	"tmp":               true,
	"var/tmp":           true,
	"var/run":           true,
	"var/lock":          true,
	"var/cache":         true,
	"var/lib/apt/lists": true,
}

// leftOut are paths that are needed only for compiling or reading. Compiling happens in the
// container and never in the served root. usr/src stays, because containers for GPUDirect Storage
// and GDRCopy compile against it with compilers of their own. Most files of an image belong to
// Perl, which compiling needs, to time zones and to descriptions of packages; Perl works without
// these (perl-base), and so does dpkg -l.
var leftOut = map[string]bool{
	"dev": true, "sys": true,
	"usr/lib/gcc": true, "usr/lib64/gcc": true, "usr/libexec/gcc": true, "opt/rh": true,
	"usr/share/doc": true, "usr/share/man": true, "usr/share/info": true, "usr/share/bug": true, "usr/share/lintian": true,
	"usr/share/bash-completion": true, "usr/share/zoneinfo": true, "var/lib/dpkg/info": true,
	"usr/share/perl": true, "usr/share/perl5": true, "usr/lib64/perl5": true, "usr/lib/x86_64-linux-gnu/perl": true, "usr/lib/aarch64-linux-gnu/perl": true,
}

// runDirs are the folders of the daemons' sockets, which clients look for below the driver root.
var runDirs = []string{
	"run/nvidia-persistenced",
	"run/nvidia-fabricmanager",
	"run/nvidia-topologyd",
}

const (
	rootsDir  = "roots"
	tmpPrefix = ".tmp-"
)

var (
	versionFormat = lazyregexp.New(`^[0-9]{1,6}(\.[0-9]{1,6}){1,3}$`)
	idFormat      = lazyregexp.New(`^[0-9a-f]{12,64}$`)
)

// folder returns the folder of an image's copy: Storage/roots/535.261.03-0123456789ab.
func (r *Root) folder(version, id string) (string, error) {
	name, err := Folder(version, id)
	if err != nil {
		return "", err
	}
	return filepath.Join(r.Storage, name), nil
}

// Folder returns the folder of an image's copy below the storage: roots/535.261.03-0123456789ab.
func Folder(version, id string) (string, error) {
	if !versionFormat().MatchString(version) {
		return "", fmt.Errorf("driver version %q: want numbers and dots, as 535.261.03", version)
	}
	if !idFormat().MatchString(id) {
		return "", fmt.Errorf("identity of the image %q: want at least 12 hex digits", id)
	}
	return filepath.Join(rootsDir, version+"-"+id[:12]), nil
}

// makeRunDirs creates the folders of the daemons' sockets in the image's /run. It is called before
// daemons start: a daemon that finds no folder creates it and removes it at its end, and a bind of
// that folder would show the removed one for ever.
func (r *Root) makeRunDirs() error {
	for _, dir := range runDirs {
		if err := os.MkdirAll(filepath.Join(r.Image, dir), 0o755); err != nil {
			return fmt.Errorf("make the folder of a daemon's socket: %w", err)
		}
	}
	return nil
}
