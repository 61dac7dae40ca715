package kubernetes

import (
	"fmt"
	"strings"
	"time"

	"github.com/driver-container/driver-container/node/status"
)

// eventText is an Event without its subject. The reasons below are the only ones.
type eventText struct {
	Event
	node bool // also on the node: it concerns more than this pod
}

// waitReasons are the reasons by status.Snapshot.WaitsFor.
var waitReasons = map[string]string{
	status.ForLock: "WaitingForLock", status.ForHolders: "WaitingForHolders", status.ForSafeLoad: "WaitingForSafeLoad",
	status.ForPreflight: "PreflightFailed", status.ForToolkit: "WaitingForDriverToolkit",
}

const compilePhase = "modules"

// lasts reports whether what the Event says should be reported again while it lasts.
func (s eventText) lasts() bool {
	return s.Reason != "" && s.Reason != "Serving" && s.Reason != "Stopped"
}

// eventOf returns what the Event says for a status. It is zero when there is nothing to report:
// during a start that does not compile, and during a stop that waits for nobody.
func eventOf(st status.Snapshot, compiling bool) eventText {
	s := eventText{Event{Message: st.Reason, Warning: true}, st.Holding()}
	switch st.State {
	case status.Waiting:
		s.Reason = waitReasons[st.WaitsFor]
		s.Warning = st.WaitsFor == status.ForPreflight || st.WaitsFor == status.ForHolders
	case status.Starting:
		if !compiling {
			return eventText{}
		}
		s.Reason = "Compiling"
		s.Warning = false
		s.node = false
		s.Message = fmt.Sprintf(
			"compiling the modules of driver %s for kernel %s",
			st.Wanted,
			st.Kernel,
		)
	case status.Serving:
		s.Reason = "Serving"
		s.Message = serving(st)
		s.Warning = false
	case status.Stopping:
		if len(st.Holders) == 0 {
			return eventText{}
		}
		s.Reason = "UnloadBlocked"
	case status.Absent:
		s.Reason = "Stopped"
		s.Message = "the driver was taken down: modules unloaded, driver root removed"
		s.Warning = false
	case status.Degraded, status.Detached, status.Restored, status.Failed:
		s.Reason = camel(st.State)
	}
	return s
}

// serving returns a description of the driver that serves.
func serving(st status.Snapshot) string {
	if st.Up == nil {
		return ""
	}
	working, expected, _ := status.CountGPUs(st.GPUs)
	took := 0.0
	for _, p := range st.Phases {
		took += p.Seconds
	}
	return fmt.Sprintf(
		"driver %s (%s modules%s) serves kernel %s, %d of %d GPUs work%s; the start took %s%s",
		st.Up.Version,
		st.Up.Flavour,
		st.Up.From(),
		st.Kernel,
		working,
		expected,
		others(st.GPUs),
		(time.Duration(took*1000) * time.Millisecond).String(),
		unmet(st.Companions),
	)
}

// unmet returns which companions are not as they were asked for, as the end of a sentence.
func unmet(companions []status.Companion) string {
	var b strings.Builder
	for _, c := range companions {
		if c.Reason != "" {
			b.WriteString("; " + c.Text())
		}
	}
	return b.String()
}

// record records an Event when what the Event says has changed, or has lasted for long.
func (r *Reporter) record(st status.Snapshot) {
	if !r.events.on {
		return
	}
	now := r.now()
	if st.State != status.Starting {
		r.phase = ""
	} else if st.Phase != r.phase {
		r.phase = st.Phase
		r.since = now
	}
	s := eventOf(st, r.phase == compilePhase && now.Sub(r.since) >= compileWait)
	again := s == r.last && s.lasts() && now.Sub(r.recorded) >= repeatEvery
	if s == r.last && !again {
		return
	}
	r.last = s
	r.recorded = now
	if s.Reason != "" {
		r.emit(s.Event, s.node)
	}
}
