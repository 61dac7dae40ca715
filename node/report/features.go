package report

import (
	"github.com/driver-container/driver-container/node/features"
	"github.com/driver-container/driver-container/node/status"
)

// label keeps NFD's file true. It stays while the driver is up, also when a GPU or a daemon fails for a while or no container runs: pods that
// were placed by these labels would be removed with them. It is another driver's while that one has to be replaced, and nobody's before a
// driver is loaded: the file outlives a reboot, which a driver does not.
func (r *Reporter) label(st status.Snapshot) {
	if r.o.Features == "" || !st.Holding() {
		return
	}
	var err error
	switch {
	case st.Up == nil:
		err = features.Remove(r.o.Features)
	case st.State == status.Serving, st.State == status.Restored:
		gpus := make([]features.GPU, 0, len(st.GPUs))
		for _, g := range st.GPUs {
			gpus = append(gpus, features.GPU{Model: features.Model(g.Name, r.o.Proc, g.Address, g.ID), Works: g.Works})
		}
		err = features.Write(r.o.Features, features.Labels(st.Up.Version, st.Up.Flavour, gpus))
	}
	switch {
	case err == nil:
		r.features = ""
	case r.features == "":
		r.features = err.Error()
		r.o.Say("warning: %v; the driver goes on without", err)
	}
}
