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

// observer looks at a driver that is up, and says whether it is ready.
type observer struct {
	*Node
	up *Served
}

// verify asks the driver itself. A driver that answers with another version is a failure. A GPU
// that does not come up keeps the node not ready or is a warning, as configured; it is asked again
// while the instance runs.
func (n *Node) verify(ctx context.Context, up Served) (Served, error) {
	up.dropRestore() // the new driver is in place: from here on a stop ends without a driver
	up.Seen.Fabric.Who = n.cfg.Fabric
	o := observer{Node: n, up: &up}
	o.lookAtGPUs()
	reason, err := o.askDriver(ctx)
	if err != nil {
		return up, err
	}
	reason, err = o.awaitFabric(ctx, reason)
	if err != nil {
		return up, err
	}
	o.announce(reason)
	return up, nil
}

// askDriver returns the reason why the driver is not ready ("": it is ready), or an error if it
// cannot become ready.
func (o *observer) askDriver(ctx context.Context) (string, error) {
	if o.up.DaemonsErr != nil {
		o.up.Daemons, o.up.DaemonsErr = o.StartDaemons(ctx)
		if o.up.DaemonsErr != nil {
			return o.up.DaemonsErr.Error(), ctx.Err()
		}
	}
	down := o.daemonsDown()
	if down != "" {
		return down, nil
	}
	seen := &o.up.Seen.GPUs
	if seen.None() {
		return o.gpuReason(), nil
	}
	answer, err := o.Hardware.Ask(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if errors.As(err, new(*daemons.HungError)) {
		return strings.Join(append(seen.Lost(), err.Error()), "; "), nil
	}
	partly := errors.Is(err, probe.ErrPartly) && answer.Driver != "" // it has the other GPUs
	if err != nil && !partly {
		return "", fmt.Errorf("ask the driver: %w", err)
	}
	if answer.Driver != "" && answer.Driver != o.up.Want.Driver {
		return "", fmt.Errorf("the driver says that it is version %s, loaded is %s: "+
			"the libraries in this image and the kernel modules do not belong together",
			answer.Driver, o.up.Want.Driver)
	}
	seen.Answered(answer)
	return o.gpuReason(), nil
}

// gpuReason sets the GPUs in the status, and returns the reason why the driver is not ready because
// of one.
func (o *observer) gpuReason() string {
	seen := &o.up.Seen
	gpus, broken := seen.GPUs.States(o.Hardware.Reasons)
	last := seen.GPUs.Last
	o.Status.GPUs(gpus, last.CUDA)
	var reasons []string
	add := func(text string) {
		if text != "" {
			reasons = append(reasons, text)
		}
	}
	if len(broken) > 0 {
		text := strings.Join(broken, "; ")
		if o.cfg.GPUInit == config.GPUWarn {
			o.warn("%s", text)
		} else {
			add(text + " (--gpu-init=warn serves the others all the same)")
		}
	}
	add(seen.Fabric.Judge(time.Now(), last.Devices, o.warn))
	if o.cfg.VGPULicence == vgpu.LicenceRequire {
		add(vgpu.Unlicensed(last.Devices))
	}
	return strings.Join(reasons, "; ")
}

// fabricEvery is how often a start asks GPUs that register with their NVLink fabric.
const fabricEvery = 2 * time.Second

// awaitFabric examines the driver again while its GPUs register with the fabric. When that takes
// too long, the start goes on with a node that is not ready.
func (o *observer) awaitFabric(ctx context.Context, reason string) (string, error) {
	for reason != "" && o.up.Seen.Fabric.Expected(time.Now()) {
		o.Status.Explain(reason, nil)
		if !daemons.Sleep(ctx, fabricEvery) {
			return "", ctx.Err()
		}
		var err error
		reason, err = o.askDriver(ctx)
		if err != nil {
			return "", err
		}
	}
	return reason, nil
}

func (o *observer) daemonsDown() string {
	if o.up.Daemons == nil {
		return ""
	}
	states := o.up.Daemons.States()
	o.Status.Daemons(states)
	return daemons.Down(states)
}

// announce writes whether the driver is ready, and returns the reason why it is not. If it is not,
// it writes the markers first; if it is, it writes them last. A marker that cannot be written is
// such a reason: the driver works, and the watch announces it again later.
func (o *observer) announce(reason string) string {
	if reason == "" {
		err := o.markers.Ready()
		if err == nil {
			o.up.Seen.Unmarked = false
			o.Status.Set(status.Serving, "")
			d := o.up.Driver
			o.Log.Info("ready", "driver", d.Version, "flavour", d.Flavour, "kernel", o.Release)
			return ""
		}
		reason = fmt.Sprintf("the driver works, and the markers of readiness cannot be written: %v",
			err)
	}
	if o.Status.Get().Reason != reason {
		o.Log.Error("not ready", "reason", reason)
	}
	err := o.markers.NotReady()
	o.up.Seen.Unmarked = err != nil
	if err != nil {
		o.warn("markers: %v", err)
	}
	o.Status.Set(status.Degraded, reason)
	return reason
}
