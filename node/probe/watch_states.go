package probe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/node/status"
)

// States returns all GPUs for the status, by address, and a sentence about each that is the driver's and does
// not work. reasons returns what the kernel's log says about a GPU that does not initialise.
func (w *Watch) States(reasons func(address string) []string) (states []status.GPU, broken []string) {
	for _, address := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[address]
		g := status.GPU{Address: address, ID: fmt.Sprintf("%04x:%04x", k.Vendor, k.Device), Driver: k.Driver, State: k.state}
		what := fmt.Sprintf("GPU %s (%s)", g.Address, g.ID)
		switch k.state {
		case status.GPULent:
			if g.Reason = lent(k.GPU); k.Driver == "" && !k.Lent() {
				g.Reason += fmt.Sprintf(": echo %s > /sys/bus/pci/drivers/nvidia/bind gives it to this one", address)
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
				if g.Works, g.Name, g.UUID = true, d.Name, d.UUID; d.Fabric != nil {
					g.Fabric = d.Fabric.State
				}
				break
			}
			g.Reason = strings.Join(reasons(address), " / ")
			if g.Reason == "" {
				g.Reason = "the driver does not list it, and the kernel's log says nothing of it"
			}
			broken = append(broken, fmt.Sprintf("%s does not initialise: %s", what, g.Reason))
		}
		states = append(states, g)
	}
	return states, broken
}

// Lost returns the sentences of States about GPUs that fell off the bus.
func (w *Watch) Lost() (lost []string) {
	_, broken := w.States(func(string) []string { return nil })
	return slices.DeleteFunc(broken, func(text string) bool { return !strings.Contains(text, "fell off the bus") })
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
	return slices.ContainsFunc(w.answer.Devices, func(d Device) bool { return d.Licence != nil })
}

// Relicensed takes the licences of an answer, and nothing else of it. It returns the GPUs of the status with
// them, and the addresses of those that lost their licence, or got one, since the answer before.
func (w *Watch) Relicensed(a Answer, states []status.GPU) (all []status.GPU, lost, got []string) {
	now := Watch{answer: a}
	for i, d := range w.answer.Devices {
		if at := slices.IndexFunc(a.Devices, func(o Device) bool { return o.PCI == d.PCI && o.Licence != nil }); at >= 0 && d.Licence != nil {
			w.answer.Devices[i].Licence = a.Devices[at].Licence
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
