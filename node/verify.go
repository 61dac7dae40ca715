package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/node/daemons"
	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/probe"
	"github.com/driver-container/driver-container/node/status"
)

// notAsked is the warning for a driver that cannot be asked, so that its files in procfs are the answer.
const notAsked = "the GPUs are not asked whether they work: this container is not privileged and may not open their device files; " +
	"verified is the driver's version, and that it has taken the GPUs"

// verify asks the driver itself. A driver that answers with another version is a failure. A GPU that does not
// come up keeps the node not ready or is a warning, as configured; it is asked again while the instance runs.
func (n *Node) verify(ctx context.Context) error {
	n.dropRestore() // the new driver is in place: from here on a stop ends without a driver
	reason, err := n.examine(ctx)
	if err != nil {
		return err
	}
	return n.announce(reason)
}

// examine returns the reason why the driver is not ready ("": it is ready), or an error if it cannot become
// ready.
func (n *Node) examine(ctx context.Context) (string, error) {
	if n.daemons == nil && n.daemonsErr != nil {
		if err := n.tryDaemons(ctx); err != nil {
			return err.Error(), ctx.Err()
		}
	}
	if reason := n.daemonsDown(); reason != "" {
		return reason, nil
	}
	answer, err := n.hardware.Ask(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	switch {
	case errors.As(err, new(*probe.HungError)):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("ask the driver: %w", err)
	case answer.Driver != "" && answer.Driver != n.want.Driver:
		return "", fmt.Errorf("the driver says that it is version %s, loaded is %s: the libraries in this image and the kernel modules do not belong together",
			answer.Driver, n.want.Driver)
	}
	if answer.Source == probe.SourceProcfs {
		n.warn("%s", notAsked)
	}
	gpus, broken := n.judge(answer)
	n.status.Change(func(st *status.Snapshot) { st.GPUs = gpus })
	if len(broken) == 0 {
		return "", nil
	}
	text := strings.Join(broken, "; ")
	if n.cfg.GPUInit == GPUWarn {
		n.warn("%s", text)
		return "", nil
	}
	return text + " (--gpu-init=warn serves the others all the same)", nil
}

// judge compares the PCI bus with the driver's answer.
func (n *Node) judge(answer probe.Answer) (gpus []status.GPU, broken []string) {
	for _, g := range n.gpus {
		state := status.GPU{Address: g.Address, ID: fmt.Sprintf("%04x:%04x", g.Vendor, g.Device)}
		for _, d := range answer.Devices {
			if d.At(g.Address) {
				state.Works, state.Name, state.UUID = true, d.Name, d.UUID
			}
		}
		if !state.Works {
			state.Reason = n.reason(g)
			broken = append(broken, fmt.Sprintf("GPU %s (%s) does not initialise: %s", g.Address, state.ID, state.Reason))
		}
		gpus = append(gpus, state)
	}
	return gpus, broken
}

func (n *Node) reason(g devices.GPU) string {
	if g.Driver != "nvidia" && g.Driver != "" {
		return "it is bound to " + g.Driver
	}
	lines := n.hardware.Reasons(g.Address)
	if len(lines) == 0 {
		return "the driver does not list it, and the kernel's log says nothing of it"
	}
	return strings.Join(lines, " / ")
}

func (n *Node) daemonsDown() string {
	if n.daemons == nil {
		return ""
	}
	states := n.daemons.States()
	n.status.Change(func(st *status.Snapshot) { st.Daemons = states })
	return daemons.Down(states)
}

// announce writes whether the driver is ready. If it is not, it writes the markers first; if it is, it writes
// them last.
func (n *Node) announce(reason string) error {
	if reason != "" {
		n.log.Error("not ready", "reason", reason)
		err := n.markers.NotReady()
		n.status.Set(status.Degraded, reason)
		return err
	}
	if err := n.markers.Ready(); err != nil {
		return fmt.Errorf("write the markers of readiness: %w", err)
	}
	n.status.Change(func(st *status.Snapshot) { st.State, st.Ready, st.Reason, st.Holders = status.Serving, true, "", nil })
	n.log.Info("ready", "driver", n.driver.Version, "flavour", n.driver.Flavour, "kernel", n.release)
	return nil
}
