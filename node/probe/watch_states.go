package probe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
	"github.com/driver-container/driver-container/node/status"
)

// States returns all GPUs for the status, by address, and a sentence about each that is the
// driver's and does not work. reasons returns what the kernel's log says about a GPU that does not
// initialise.
func (w *Watch) States(
	reasons func(address string) []string,
) (states []status.GPU, broken []string) {
	for _, address := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[address]
		g := status.GPU{
			Address: address,
			ID:      fmt.Sprintf("%04x:%04x", k.Vendor, k.Device),
			Driver:  k.Driver,
			State:   k.state,
		}
		what := fmt.Sprintf("GPU %s (%s)", g.Address, g.ID)
		switch k.state {
		case status.GPULent:
			g.Reason = lent(k.GPU)
			if k.Driver == "" && !k.Lent() && !w.Unloaded {
				g.Reason += fmt.Sprintf(
					": echo %s > /sys/bus/pci/drivers/nvidia/bind gives it to this one",
					address,
				)
			}
		case status.GPUTaken:
			g.Reason = "it is bound to " + k.Driver
			broken = append(broken, fmt.Sprintf("%s does not initialise: %s", what, g.Reason))
		case status.GPULost:
			g.Reason = k.loss()
			broken = append(broken, fmt.Sprintf("%s fell off the bus: %s; the other GPUs go on. "+
				"Drain the node, and reset the GPU or switch the node off and on", what, g.Reason))
		default:
			if d, works := w.answers(address); works {
				g.Licence = d.Licence.String()
				g.Works = true
				g.Name = d.Name
				g.UUID = d.UUID
				if d.Fabric != nil {
					g.Fabric = d.Fabric.State
				}
				break
			}
			g.Reason = cmp.Or(
				strings.Join(reasons(address), " / "),
				w.Last.Err,
				"the driver does not list it, and the kernel's log says nothing of it",
			)
			broken = append(broken, fmt.Sprintf("%s does not initialise: %s", what, g.Reason))
		}
		states = append(states, g)
	}
	return states, broken
}

// Lost returns the sentences of States about GPUs that fell off the bus.
func (w *Watch) Lost() (lost []string) {
	_, broken := w.States(func(string) []string { return nil })
	return slices.DeleteFunc(
		broken,
		func(text string) bool { return !strings.Contains(text, "fell off the bus") },
	)
}

// loss says how it is known that a GPU fell off the bus.
func (k *gpu) loss() string {
	switch {
	case k.gone:
		return "it is not on the PCI bus any more"
	case k.lost != "":
		return k.lost
	}
	return "its configuration space reads as all ones"
}

// Licences says whether a GPU of the last answer is a vGPU that can have a licence.
func (w *Watch) Licences() bool {
	return slices.ContainsFunc(w.Last.Devices, func(d Device) bool { return d.Licence != nil })
}

// Relicensed takes the licences of an answer, and nothing else of it. It returns the GPUs of the
// status with them, and the addresses of those that lost their licence, or got one, since the
// answer before.
func (w *Watch) Relicensed(a Answer, states []status.GPU) (all []status.GPU, lost, got []string) {
	now := Watch{Last: a}
	for i, d := range w.Last.Devices {
		if at := slices.IndexFunc(a.Devices, func(o Device) bool { return o.PCI == d.PCI && o.Licence != nil }); at >= 0 &&
			d.Licence != nil {
			w.Last.Devices[i].Licence = a.Devices[at].Licence
		}
	}
	all = slices.Clone(states)
	for i, g := range all {
		d, ok := now.answers(g.Address)
		if !ok || d.Licence == nil || g.Licence == "" {
			continue
		}
		all[i].Licence = d.Licence.String()
		switch had, has := !g.Unlicensed(), !all[i].Unlicensed(); {
		case had && !has:
			lost = append(lost, g.Address)
		case has && !had:
			got = append(got, g.Address)
		}
	}
	return all, lost, got
}

// The driver's messages about a GPU that it cannot reach any more. Xid 79 is that event; the second
// message comes from the same code. The third comes from the probe of a GPU, in three lines. The
// last one says that the driver is to give up a GPU that is in use, and waits.
var (
	xid79 = lazyregexp.New(
		`^NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): 79,`,
	)
	offTheBus = lazyregexp.New(
		`^NVRM: GPU (?:at )?(?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?: GPU has fallen off the bus`,
	)
	installed = lazyregexp.New(
		`^NVRM: The NVIDIA GPU ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?`,
	)
	removal = lazyregexp.New(
		`^NVRM: Attempting to remove device ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])? with non-zero usage count`,
	)
)

// fallenOff returns, by PCI address, the lines of the kernel's log that say that a GPU fell off the
// bus.
func fallenOff(log []string) map[string]string {
	fallen := map[string]string{}
	note := func(found []string, line string) {
		if found != nil && fallen[found[1]+".0"] == "" {
			fallen[found[1]+".0"] = line
		}
	}
	const apart = 2 // lines from the address to the words
	for i, line := range log {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "NVRM: "):
		case strings.HasPrefix(line, "NVRM: fallen off the bus"):
			for _, earlier := range log[max(0, i-apart):i] {
				note(installed().FindStringSubmatch(strings.TrimSpace(earlier)), line)
			}
		default:
			note(xid79().FindStringSubmatch(line), line)
			note(offTheBus().FindStringSubmatch(line), line)
		}
	}
	return fallen
}

// Unbinding returns the addresses of GPUs that another program unbinds although they are in use,
// according to the kernel's log. The unbinding hangs in the kernel until nobody uses the GPU.
func Unbinding(log []string) (addresses []string) {
	for _, line := range log {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "NVRM: Attempting to remove") {
			continue
		}
		found := removal().FindStringSubmatch(line)
		if found != nil && !slices.Contains(addresses, found[1]+".0") {
			addresses = append(addresses, found[1]+".0")
		}
	}
	return addresses
}
