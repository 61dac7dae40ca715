package fabric

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/probe"
)

// RegistrationWait is how long GPUs may take to register with their fabric.
const RegistrationWait = 5 * time.Minute

// Registration follows the registration of a node's GPUs from one question to the next.
type Registration struct {
	Who   string    // manages the switches; with Ignore the registration does not count
	since time.Time // since when GPUs have not finished; zero: they have
}

// Judge returns why the fabric keeps the node from being ready, since CUDA programs would fail with
// error 802, and warns of what else the GPUs say. The reason has no duration, so that each new
// reason is reported once.
func (r *Registration) Judge(
	now time.Time,
	gpus []probe.Device,
	warn func(format string, args ...any),
) string {
	if r.Who == Ignore {
		return ""
	}
	pending, failed := judge(gpus, warn)
	switch {
	case pending == "":
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	switch {
	case failed != "":
		return failed
	case pending == "":
		return ""
	case r.Expected(now):
		return fmt.Sprintf(
			"%s; waiting for it until %s",
			pending,
			r.since.Add(RegistrationWait).UTC().Format(time.RFC3339),
		)
	}
	return fmt.Sprintf(
		"%s, and did not end within %s: the fabric manager does not run, or a virtual machine was given GPUs whose switches the host has not set up; "+
			"look at the states of the daemons, and at /var/log/fabricmanager.log",
		pending,
		RegistrationWait,
	)
}

// Expected reports whether GPUs are still expected to register soon.
func (r *Registration) Expected(now time.Time) bool {
	return !r.since.IsZero() && now.Sub(r.since) < RegistrationWait
}

// judge says which registrations have not ended, and which failed; "" for none. A GPU without a
// fabric, or of a driver that does not know the question, is in neither.
func judge(all []probe.Device, warn func(format string, args ...any)) (pending, failed string) {
	byState := map[string][]string{}
	var failures, parts []string
	for _, d := range all {
		switch {
		case d.Fabric == nil:
			continue
		case d.Fabric.State == probe.FabricUnknown:
			warn("GPU %s: the state of the NVLink fabric is not known: %s", d.PCI, d.Fabric.Error)
		case d.Fabric.State == probe.FabricCompleted && d.Fabric.Error != "":
			failures = append(failures, fmt.Sprintf("GPU %s: %s", d.PCI, d.Fabric.Error))
		}
		byState[d.Fabric.State] = append(byState[d.Fabric.State], d.PCI)
		if len(d.Fabric.Health) > 0 {
			warn(
				"GPU %s: the NVLink fabric is not healthy: %s",
				d.PCI,
				strings.Join(d.Fabric.Health, ", "),
			)
		}
	}
	for _, state := range []string{probe.FabricNotStarted, probe.FabricInProgress} {
		if gpus := byState[state]; len(gpus) > 0 {
			parts = append(
				parts,
				fmt.Sprintf(
					"%s on %d of %d GPUs (%s)",
					state,
					len(gpus),
					len(all),
					strings.Join(gpus, ", "),
				),
			)
		}
	}
	if len(parts) > 0 {
		pending = "the registration with the NVLink fabric is " + strings.Join(parts, ", ")
	}
	if len(failures) > 0 {
		slices.Sort(failures)
		failed = "the registration with the NVLink fabric failed: " + strings.Join(failures, "; ")
	}
	return pending, failed
}
