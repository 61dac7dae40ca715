package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/kmod/sign"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/headers"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/preflight"
)

// Where modules are in an image, and where they are compiled. The scratch folder is in the
// container: the result does not depend on it, and the host's storage may be mounted noexec.
const (
	imageModules = "/usr/share/nvidia-driver/modules"
	scratchDir   = "/var/tmp/nvidia-driver"
	fetchedDir   = "/var/tmp/nvidia-driver-headers" // of kernels, from repositories
	modulesDir   = "modules"                        // of the cache, below the state folder
	// number of sets of modules in the cache beside baked ones: two drivers on three kernels
	keepSets = 6
)

// supply supplies module files: from the image, from mounted images, from the cache on the host's
// storage, or compiled.
type supply struct {
	cfg     config.Config
	info    driverinfo.Description
	log     *slog.Logger
	signer  *sign.Signer // of modules that are compiled here; nil: they stay unsigned
	image   string       // folder of the image's modules; "": imageModules
	scratch string       // "": scratchDir

	baked Index // what was baked into the state folder

	toolkitImage string // root with the sources for a Driver Toolkit; "": "/"

	leftAlone []string // what mounted images have that does not fit, by the last Find
	logged    sync.Map // what logOnce has logged
}

func (s *supply) work() string { return cmp.Or(s.scratch, scratchDir) }

func (s *supply) cache() kbuild.Cache {
	return kbuild.Cache{Dir: filepath.Join(s.cfg.StateDir, modulesDir)}
}

// moduleImage is a mounted image as the origin of headers.
const moduleImage = "module image"

// headers searches for headers without changing anything.
func (s *supply) headers(release string) (buildtree.Headers, error) {
	roots := []buildtree.Root{{Dir: "/", Name: "image"}}
	for _, dir := range s.cfg.ModuleImages {
		roots = append(roots, buildtree.Root{Dir: dir, Name: moduleImage})
	}
	roots = append(roots, buildtree.Root{Dir: "/host", Name: "host"})
	if _, err := preflight.HostRoot(rootOfInit, "/"); err == nil {
		roots = append(roots, buildtree.Root{Dir: rootOfInit, Name: "host"})
	}
	fetched := filepath.Join(fetchedDir, release)
	if _, err := os.Stat(fetched); err == nil {
		roots = append(roots, buildtree.Root{Dir: fetched, Name: "repositories"})
	}
	return buildtree.Find(release, roots)
}

// prepare finds or fetches headers.
func (s *supply) prepare(ctx context.Context, release string) (buildtree.Headers, error) {
	h, err := s.headers(release)
	if errors.As(err, new(*buildtree.NoHeadersError)) && s.cfg.Fetch {
		s.log.Info(
			"no headers in the image or on the host, asking the system's repositories",
			"kernel",
			release,
		)
		store := filepath.Join(s.cfg.StateDir, "downloads")
		into := filepath.Join(fetchedDir, release)
		installed, ferr := headers.Fetch(
			ctx,
			headers.Options{Release: release, Into: into, Store: store, Log: s.log},
		)
		if ferr != nil {
			return h, errors.Join(ferr, err)
		}
		s.log.Info("headers installed", "packages", installed)
		h, err = s.headers(release)
	}
	if err != nil {
		return h, err
	}
	// kubelet mounts images noexec
	if strings.HasPrefix(h.Build, rootOfInit) || h.Origin == moduleImage {
		h, err = s.copyHeaders(ctx, h)
		if err != nil {
			return h, err
		}
	}
	if made, err := h.Link("/"); err != nil {
		return h, err
	} else if len(made) > 0 {
		s.log.Info("headers found, links made", "origin", h.Origin, "paths", made)
	}
	return h, nil
}

// copyHeaders copies headers into this container: make cannot work through the root of process 1,
// nor start programs of a mounted image.
func (s *supply) copyHeaders(ctx context.Context, h buildtree.Headers) (buildtree.Headers, error) {
	dir := filepath.Join(s.work(), "headers")
	begin := time.Now()
	if err := errors.Join(os.MkdirAll(s.work(), 0o700), os.RemoveAll(dir)); err != nil {
		return h, fmt.Errorf("make room for the kernel's headers: %w", err)
	}
	copied, err := h.Copy(ctx, dir)
	if err != nil {
		return copied, err
	}
	s.log.Info("headers copied", "origin", h.Origin,
		"path", strings.TrimPrefix(h.Build, rootOfInit),
		"duration", time.Since(begin).Round(time.Millisecond))
	return copied, nil
}

// compile compiles the modules in this container; the set stays in the scratch folder.
func (s *supply) compile(ctx context.Context, w node.Want) (*kbuild.Set, error) {
	if !s.info.Toolchain {
		return nil, &NoModulesError{Info: s.info, Release: w.Release, Flavour: w.Flavour}
	}
	h, err := s.prepare(ctx, w.Release)
	if err != nil {
		return nil, err
	}
	id, err := kbuild.KernelID(w.Release, h, "", "")
	if err != nil {
		return nil, err
	}
	rdma, err := s.rdma(w.Release)
	if err != nil {
		return nil, err
	}
	r := s.request(w, rdma)
	r.Log, err = s.logFile(w)
	if err != nil {
		return nil, err
	}
	job, err := r.Job(ctx, id, h, s.log)
	if err != nil {
		return nil, err
	}
	return job.Compile(ctx, s.log)
}

// request returns what is to be compiled, here or in a Driver Toolkit container.
func (s *supply) request(w node.Want, rdma []string) modules.Request {
	return modules.Request{
		Info:       s.info,
		Flavour:    w.Flavour,
		Modules:    w.Modules,
		Optional:   w.Optional,
		Companions: w.Companions,
		RDMA:       rdma,
		MaxThreads: s.cfg.MaxThreads,
		Work:       s.work(),
	}
}

// logFile returns the path of the file for the output of a compile, on the host's storage if there
// is any.
func (s *supply) logFile(w node.Want) (string, error) {
	dir := filepath.Join(s.cfg.StateDir, "log")
	err := cmp.Or(
		os.MkdirAll(dir, 0o755),
		unix.Access(dir, unix.W_OK), // bake may have left the folder
	)
	if errors.Is(err, unix.EROFS) {
		return "", fmt.Errorf(
			"make the folder for the compile's log: %w: what is in %s has no modules for kernel %s, and it cannot be written: mount it writable, or bake it for this kernel",
			err,
			s.cfg.StateDir,
			w.Release,
		)
	}
	if err != nil {
		return "", fmt.Errorf("make the folder for the compile's log: %w", err)
	}
	return filepath.Join(
		dir,
		fmt.Sprintf("compile-%s-%s-%s.log", w.Driver, w.Flavour, w.Release),
	), nil
}

// Keep puts a set into the cache, in which sets with needed files stay.
func (s *supply) Keep(ctx context.Context, set *kbuild.Set, needed []string) (*kbuild.Set, error) {
	kept, err := s.cache().Put(ctx, set)
	if err != nil {
		return nil, err
	}
	needed = slices.Concat(needed, s.baked.modules(s.cfg.StateDir))
	if err := errors.Join(s.cache().Prune(keepSets, needed...), os.RemoveAll(s.work())); err != nil {
		s.log.Warn("old modules or the scratch folder not removed", "error", err)
	}
	return kept, nil
}

// NoModulesError says that an image without a toolchain has no modules for a kernel.
type NoModulesError struct {
	Info             driverinfo.Description
	Release, Flavour string
}

// Error names the kernels that the image has modules for, and what to do.
func (e *NoModulesError) Error() string {
	finding, fix := preflight.Missing(e.Info, e.Release, e.Flavour)
	return finding + ". " + fix
}
