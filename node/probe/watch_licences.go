package probe

import (
	"slices"

	"github.com/driver-container/driver-container/node/status"
)

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
