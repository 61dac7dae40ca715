package probe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/driver-container/driver-container/node/devices"
	"github.com/driver-container/driver-container/node/status"
)

// Watch follows the GPUs of a node while its driver serves: which of them are the driver's, which
// are lent to another driver, and which fell off the bus. It is told what the PCI bus, the kernel's
// log and the driver say, and draws the conclusions. The zero value knows no GPU. It is not safe
// for several goroutines.
type Watch struct {
	Last     Answer // of the driver
	Unloaded bool   // the driver's module is not loaded, so no GPU can be bound to it

	known map[string]*gpu // by address
}

// gpu is a GPU that is on the bus, or that was on it when it was lost.
type gpu struct {
	devices.GPU
	was    bool   // a driver had it in this life; if none has it now, it was unbound
	gone   bool   // it is not on the bus any more
	silent int    // how many looks in a row it did not answer
	lost   string // what the kernel's log said when it was lost; "": nothing
	state  status.GPUState
	who    string // has it if it is lent
}

// maxSilent is how many looks in a row a GPU that answered before may be silent: it may be in a
// reset.
const maxSilent = 2

// Change is a GPU whose state is another one than at the last look.
type Change struct {
	devices.GPU
	From, To status.GPUState // "" for a GPU that was not known, or that is not known any more
}

// Came says whether the driver has got the GPU, so that it can be asked and needs device files.
func (c Change) Came() bool { return c.To == status.GPUOurs }

// String says what happened to the GPU.
func (c Change) String() string {
	what := fmt.Sprintf("GPU %s (%04x:%04x)", c.Address, c.Vendor, c.Device)
	switch c.To {
	case status.GPULent:
		return what + " is " + lent(c.GPU)
	case status.GPUTaken:
		return what + " was taken by " + c.Driver
	case status.GPULost:
		return what + " fell off the bus"
	case "":
		return what + " was removed from the bus"
	}
	if c.From == "" {
		return what + " is new"
	}
	return what + " is the driver's again"
}

// lent says who has a GPU that is not the driver's.
func lent(g devices.GPU) string {
	if taker := cmp.Or(g.Driver, g.Override); taker != "" {
		return "lent to " + taker
	}
	return "lent to no driver"
}

// Look notes what is on the bus, and the kernel's lines since the last look. It returns what
// changed, by address.
func (w *Watch) Look(bus []devices.GPU, log []string) (changes []Change) {
	if w.known == nil {
		w.known = map[string]*gpu{}
	}
	fallen := fallenOff(log)
	for _, g := range bus {
		k, seen := w.known[g.Address]
		// a driver that is bound again begins with a working GPU
		if !seen || k.gone || k.Driver != g.Driver {
			next := &gpu{silent: maxSilent - 1}
			if seen {
				next = &gpu{was: k.was, state: k.state, who: k.who}
			}
			k = next
			w.known[g.Address] = k
		}
		k.GPU = g
		k.was = k.was || g.Driver != "" || g.Lent()
		k.silent++
		if !g.Silent {
			k.silent = 0
		}
		if line := fallen[g.Address]; line != "" && !g.Lent() {
			k.lost = line
		}
	}
	for _, address := range slices.Sorted(maps.Keys(w.known)) {
		k := w.known[address]
		here := slices.ContainsFunc(bus, func(g devices.GPU) bool { return g.Address == address })
		k.gone = k.gone || !here
		to := k.now()
		if k.gone && to != status.GPULost { // it was taken away while it was not in use
			to = ""
			delete(w.known, address)
		}
		who := ""
		if to == status.GPULent {
			who = lent(k.GPU)
		}
		if to != k.state || who != k.who {
			changes = append(changes, Change{GPU: k.GPU, From: k.state, To: to})
		}
		k.state = to
		k.who = who
	}
	return changes
}

// now returns the state of a GPU.
func (k *gpu) now() status.GPUState {
	switch {
	case k.gone && (k.Bound() || k.state == status.GPULost):
		return status.GPULost
	case k.Lent():
		return status.GPULent
	case k.Taken():
		return status.GPUTaken
	case k.silent >= maxSilent || k.lost != "":
		return status.GPULost
	case k.Driver == "" && k.was:
		return status.GPULent
	}
	return status.GPUOurs
}

// Answered notes an answer of the driver. A GPU that answers has not fallen off the bus, or has
// come back.
func (w *Watch) Answered(a Answer) {
	w.Last = a
	for _, k := range w.known {
		if _, works := w.answers(k.Address); works {
			k.lost = ""
		}
	}
}

// answers returns what the driver said about a GPU.
func (w *Watch) answers(address string) (Device, bool) {
	for _, d := range w.Last.Devices {
		if d.At(address) {
			return d, true
		}
	}
	return Device{}, false
}

// None says whether the driver has no GPU because others have all of them. NVML does not even start
// then.
func (w *Watch) None() bool {
	for _, k := range w.known {
		if k.state != status.GPULent {
			return false
		}
	}
	return len(w.known) > 0
}

// Absent says whether a GPU of the driver does not answer on the bus, or is not there any more. To
// ask the driver again is of no use then, and can take until its deadline.
func (w *Watch) Absent() bool {
	for _, k := range w.known {
		if k.state == status.GPULost && k.lost == "" {
			return true
		}
	}
	return false
}
