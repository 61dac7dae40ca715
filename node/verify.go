package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/config"
	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
	"github.com/driver-container/driver-container/node/vgpu"
)

// verify asks the driver itself. A driver that answers with another version is a failure. A GPU
// that does not come up keeps the node not ready or is a warning, as configured; it is asked again
// while the instance runs.
func (n *Node) verify(ctx context.Context) error {
	n.dropRestore() // the new driver is in place: from here on a stop ends without a driver
	n.lookAtGPUs()
	reason, err := n.askDriver(ctx)
	reason, err = n.awaitFabric(ctx, reason, err)
	if err != nil {
		return err
	}
	n.announce(reason)
	return nil
}

// askDriver returns the reason why the driver is not ready ("": it is ready), or an error if it
// cannot become ready.
func (n *Node) askDriver(ctx context.Context) (string, error) {
	if n.daemons == nil && n.daemonsErr != nil {
		if err := n.tryDaemons(ctx); err != nil {
			return err.Error(), ctx.Err()
		}
	}
	if reason := n.daemonsDown(); reason != "" {
		return reason, nil
	}
	if n.watched.None() {
		return n.gpuReason(), nil
	}
	answer, err := n.Hardware.Ask(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case errors.As(err, new(*daemons.HungError)):
		return strings.Join(append(n.watched.Lost(), err.Error()), "; "), nil
	case errors.Is(err, probe.ErrLost) && answer.Driver != "": // the answer has the other GPUs
	case err != nil:
		return "", fmt.Errorf("ask the driver: %w", err)
	case answer.Driver != "" && answer.Driver != n.want.Driver:
		return "", fmt.Errorf(
			"the driver says that it is version %s, loaded is %s: the libraries in this image and the kernel modules do not belong together",
			answer.Driver,
			n.want.Driver,
		)
	}
	n.watched.Answered(answer)
	return n.gpuReason(), nil
}

// gpuReason sets the GPUs in the status, and returns the reason why the driver is not ready because
// of one.
func (n *Node) gpuReason() string {
	gpus, broken := n.watched.States(n.Hardware.Reasons)
	n.status.Change(
		func(st *status.Snapshot) { st.GPUs = gpus; st.ReportCUDA(n.watched.Last.CUDA) },
	)
	var reasons []string
	if text := strings.Join(broken, "; "); text != "" && n.cfg.GPUInit == config.GPUWarn {
		n.warn("%s", text)
	} else if text != "" {
		reasons = append(reasons, text+" (--gpu-init=warn serves the others all the same)")
	}
	if text := n.registration.Judge(n.now(), n.watched.Last.Devices, n.warn); text != "" {
		reasons = append(reasons, text)
	}
	if text := vgpu.Unlicensed(n.watched.Last.Devices); text != "" &&
		n.cfg.VGPULicence == vgpu.LicenceRequire {
		reasons = append(reasons, text)
	}
	return strings.Join(reasons, "; ")
}

// fabricEvery is how often a start asks GPUs that register with their NVLink fabric.
const fabricEvery = 2 * time.Second

// awaitFabric examines the driver again while its GPUs register with the fabric. When that takes
// too long, the start goes on with a node that is not ready.
func (n *Node) awaitFabric(ctx context.Context, reason string, err error) (string, error) {
	for err == nil && reason != "" && n.registration.Expected(n.now()) {
		n.status.Change(func(st *status.Snapshot) { st.Reason = reason })
		if !daemons.Sleep(ctx, fabricEvery) {
			return "", ctx.Err()
		}
		reason, err = n.askDriver(ctx)
	}
	return reason, err
}

func (n *Node) daemonsDown() string {
	if n.daemons == nil {
		return ""
	}
	states := n.daemons.States()
	n.status.Change(func(st *status.Snapshot) { st.Daemons = states })
	return daemons.Down(states)
}

// announce writes whether the driver is ready, and returns the reason why it is not. If it is not,
// it writes the markers first; if it is, it writes them last. A marker that cannot be written is
// such a reason: the driver works, and the watch announces it again later.
func (n *Node) announce(reason string) string {
	if reason == "" {
		reason = n.announceReady()
	}
	if reason == "" {
		return ""
	}
	if n.status.Get().Reason != reason {
		n.log.Error("not ready", "reason", reason)
	}
	err := n.markers.NotReady()
	n.unmarked = err != nil
	if n.unmarked {
		n.warn("markers: %v", err)
	}
	n.status.Set(status.Degraded, reason)
	return reason
}

// announceReady returns why the markers of readiness cannot be written; "" if they are, and the
// status says it.
func (n *Node) announceReady() string {
	err := n.markers.Ready()
	if err != nil {
		return fmt.Sprintf(
			"the driver works, and the markers of readiness cannot be written: %v",
			err,
		)
	}
	n.status.Change(func(st *status.Snapshot) {
		st.State = status.Serving
		st.Ready = true
		st.Reason = ""
		st.Holders = nil
	})
	n.log.Info(
		"ready",
		"driver",
		n.driver.Version,
		"flavour",
		n.driver.Flavour,
		"kernel",
		n.Release,
	)
	return ""
}
