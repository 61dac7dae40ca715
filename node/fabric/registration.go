package fabric

import (
	"fmt"
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
// error 802, and warns of what else the GPUs say. The reason has no duration, so that each new reason is
// reported once.
func (r *Registration) Judge(now time.Time, gpus []probe.Device, warn func(format string, args ...any)) string {
	if r.Who == Ignore {
		return ""
	}
	v := Judge(gpus)
	for _, note := range v.Notes {
		warn("%s", note)
	}
	switch {
	case v.Pending == "":
		r.since = time.Time{}
	case r.since.IsZero():
		r.since = now
	}
	switch {
	case v.Failed != "":
		return v.Failed
	case v.Pending == "":
		return ""
	case r.Expected(now):
		return fmt.Sprintf("%s; waiting for it until %s", v.Pending, r.since.Add(RegistrationWait).UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s, and did not end within %s: the fabric manager does not run, or a virtual machine was given GPUs whose switches the host has not set up; "+
		"look at the states of the daemons, and at /var/log/fabricmanager.log", v.Pending, RegistrationWait)
}

// Expected reports whether GPUs are still expected to register soon.
func (r *Registration) Expected(now time.Time) bool {
	return !r.since.IsZero() && now.Sub(r.since) < RegistrationWait
}
