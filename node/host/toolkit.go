package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/driver-container/driver-container/kmod/kbuild"
	"github.com/driver-container/driver-container/node"
	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/drivertoolkit"
	"github.com/driver-container/driver-container/node/modules"
)

// Compile makes the modules: in the Driver Toolkit container if the pod has one, else, or if that
// one gives none, in this container. A driver that does not compile there would not compile here.
func (s *supply) Compile(
	ctx context.Context,
	w node.Want,
	events node.CompileEvents,
) (*kbuild.Set, error) {
	if s.cfg.NoCompile {
		return nil, fmt.Errorf("%w: there are no modules for kernel %s, and --no-compile "+
			"(DRIVER_NO_COMPILE) forbids to compile them", config.ErrConfig, w.Release)
	}
	if !s.cfg.HasToolkit() {
		return s.compile(ctx, w)
	}
	set, err := s.inToolkit(ctx, w, events.Waits)
	unavailable, ok := errors.AsType[*drivertoolkit.UnavailableError](err)
	switch {
	case !ok:
		modules.LogOutput(s.log, err)
		return set, err
	case !s.info.Toolchain:
		return nil, fmt.Errorf("%w; this image has no compiler of its own", unavailable)
	}
	events.Warn(
		"%v; this container compiles, with headers of the package repositories unless the node has them",
		unavailable,
	)
	set, err = s.compile(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", err, unavailable)
	}
	return set, nil
}

func (s *supply) inToolkit(
	ctx context.Context,
	w node.Want,
	waits func(string),
) (*kbuild.Set, error) {
	rdma, err := s.rdma(w.Release)
	if err != nil {
		return nil, err
	}
	defer waits("")
	r := s.request(w, rdma)
	r.Image = s.toolkitImage
	return drivertoolkit.Job{
		Request: r,
		Kernel:  w.Release,
		Fits:    s.fits(w, append(s.info.PatchNames(w.Flavour), rdma...)),
		Dir:     s.cfg.Toolkit,
		Timeout: s.cfg.ToolkitTimeout,
		Waits:   waits,
		Logger:  s.log,
	}.Compile(ctx)
}
