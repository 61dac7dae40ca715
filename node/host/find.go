package host

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/kmod/kbuild/buildtree"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/modules"
	"github.com/driver-container/driver-container/node/status"
)

// Find prefers modules of the image to those of mounted images, and these to the cache's. It does
// not compare compilers: the modules exist already. Sets that were compiled for another machine
// name their kernel by its headers only; the kernel itself checks whether the symbols fit.
func (s *supply) Find(ctx context.Context, w node.Want) (*kbuild.Set, string, error) {
	rdma, err := s.rdma(w.Release)
	if err != nil {
		return nil, "", err
	}
	patches := s.info.PatchNames(w.Flavour)
	set, source, err := s.findWith(ctx, w, append(patches, rdma...))
	here := s.info.Toolchain && !s.cfg.NoCompile
	if here || !errors.Is(err, kbuild.ErrMiss) {
		return set, source, err
	}
	// Nothing is compiled here: the driver goes without what its modules lack.
	beside := s.cfg.HasToolkit() && !s.cfg.NoCompile
	if len(w.Companions) > 0 && !beside {
		w.Companions = nil
		return s.Find(ctx, w)
	}
	if len(rdma) == 0 {
		return set, source, err
	}
	set, source, err = s.findWith(ctx, w, patches)
	if err != nil {
		return set, source, err
	}
	s.logOnce(s.log.Warn, "the modules were compiled without this node's RDMA driver "+rdma[0]+
		": nvidia-peermem is left out; an image with a toolchain compiles it")
	isPeermem := func(f kbuild.File) bool { return f.Name == "nvidia-peermem" }
	set.Modules = slices.DeleteFunc(set.Modules, isPeermem)
	return set, source, nil
}

// findWith finds modules that were compiled with the patches and no others.
func (s *supply) findWith(
	ctx context.Context,
	w node.Want,
	patches []string,
) (*kbuild.Set, string, error) {
	fits := s.fits(w, patches)
	s.lookBeside(w, fits)
	// miss is joined with the error for damaged modules; damaged is their source.
	miss := kbuild.ErrMiss
	damaged := ""
	for _, from := range s.places() {
		set, err := from.find(ctx, fits)
		if err == nil {
			set, source := s.signedBefore(ctx, set, from.source)
			return set, source, nil
		}
		if !errors.Is(err, kbuild.ErrMiss) {
			return nil, "", err
		}
		if errors.As(err, new(*kbuild.CorruptError)) {
			miss = err
			damaged = from.source
			s.logOnce(s.log.Warn, err.Error())
		}
	}
	return nil, damaged, miss
}

// fits returns a function that reports whether a set is what is wanted, with these patches.
func (s *supply) fits(w node.Want, patches []string) func(kbuild.Key) bool {
	id := ""
	if running, err := kernelRelease(); err == nil && running == w.Release {
		id, err = kbuild.KernelID(w.Release, buildtree.Headers{}, "", "")
		if err != nil {
			s.log.Info(
				"the kernel does not show its build id, modules are chosen by its release",
				"error",
				err,
			)
		}
	}
	companions := modules.Companions(s.info, w.Flavour, w.Companions)
	return func(k kbuild.Key) bool {
		return slices.Equal(k.Patches, patches) && s.match(w, k) && modules.Covers(k, companions) &&
			(id == "" || k.Kernel == id || !strings.HasPrefix(k.Kernel, "build-id "))
	}
}

func sameNames(w node.Want, k kbuild.Key) bool {
	return k.Driver == w.Driver && k.Flavour == w.Flavour && k.Release == w.Release
}

// match reports whether a set fits, as far as the name of the kernel shows it. A driver of whole
// GPUs and one for vGPU guests may have the same version: the variables of make tell their modules
// apart. So do the patches of the sources; the node's RDMA driver is no patch.
func (s *supply) match(w node.Want, k kbuild.Key) bool {
	patched := slices.DeleteFunc(
		slices.Clone(k.Patches),
		func(name string) bool { return !strings.Contains(name, "@sha256:") },
	)
	return sameNames(w, k) && k.Arch == s.info.Arch && k.Method == kbuild.Method &&
		slices.Equal(
			k.Variables,
			driverinfo.MakeVariables(s.info.VGPU),
		) && slices.Equal(patched, s.info.PatchNames(w.Flavour))
}

// cached reports whether the cache or a mounted image has a set for a kernel. It does not check the
// set for damage: Find does.
func (s *supply) cached(flavour, release string) bool {
	w := node.Want{Driver: s.info.Driver, Flavour: flavour, Release: release}
	return slices.ContainsFunc(s.places()[1:], func(p place) bool {
		return slices.ContainsFunc(p.cache.Keys(), func(k kbuild.Key) bool { return s.match(w, k) })
	})
}

// rdma returns the name of the node's RDMA driver, which modules are compiled with besides the
// driver's sources and the kernel's headers.
func (s *supply) rdma(release string) ([]string, error) {
	arch, ok := distros.LookupArch(s.info.Arch)
	if !s.cfg.RDMA || !ok {
		return nil, nil
	}
	name, err := modules.OFED("/", arch.Kernel, release)
	if name == "" || err != nil {
		return nil, err
	}
	return []string{name}, nil
}

// signedBefore returns the cache's copy of the image's modules if an earlier start signed it with
// the mounted key.
func (s *supply) signedBefore(
	ctx context.Context,
	set *kbuild.Set,
	source string,
) (*kbuild.Set, string) {
	if source != status.FromImage || s.Signer(set, source) == nil {
		return set, source
	}
	if kept, err := s.cache().Get(ctx, set.Key); err == nil &&
		bytes.Equal(kept.Certificate, s.signer.Certificate.Raw) {
		return kept, status.FromCache
	}
	return set, source
}
