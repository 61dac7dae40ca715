package status

import (
	"slices"
	"time"

	"github.com/driver-container/driver-container/kmod"
	"github.com/driver-container/driver-container/node/daemons"
)

// The changes that an instance makes to its status, in the order of a life.

// Lock reports in memory alone what became of an instance that has not got the lock: the node's
// status file belongs to the holder.
func (s *Store) Lock(state State, reason string) {
	s.ChangeUnsaved(func(st *Snapshot) {
		st.State = state
		st.Phase = LockPhase
		st.Reason = reason
		if state == Waiting {
			st.WaitsFor = ForLock
		}
	})
}

// Begin takes the status over from the predecessor, when the instance has got the lock.
func (s *Store) Begin(old Snapshot) {
	s.Change(func(st *Snapshot) {
		st.State = Starting
		st.Phase = ""
		st.Reason = ""
		st.Up = old.Up
		st.LastFailure = old.LastFailure
	})
}

// EndPhase records the duration of a phase and names the next one, "" after the last.
func (s *Store) EndPhase(phase string, took time.Duration, next string) {
	s.Change(func(st *Snapshot) {
		st.Phases = append(st.Phases, Timing{Phase: phase, Seconds: took.Seconds()})
		st.Phase = next
	})
}

// Warn keeps a warning, and reports whether it is a new one. Of very many the first are kept.
func (s *Store) Warn(text string) (isNew bool) {
	const most = 50
	s.Change(func(st *Snapshot) {
		isNew = !slices.Contains(st.Warnings, text)
		if isNew && len(st.Warnings) < most {
			st.Warnings = append(st.Warnings, text)
		}
	})
	return isNew
}

// Set changes state and reason, the most frequent change. No process is in the way then.
func (s *Store) Set(state State, reason string) {
	s.Change(func(st *Snapshot) {
		st.State = state
		st.Ready = state == Serving
		st.Reason = reason
		st.Holders = nil
	})
}

// Wait sets what the instance waits for, and the processes that are in its way.
func (s *Store) Wait(what, reason string, holders []kmod.Holder) {
	s.Change(func(st *Snapshot) {
		st.State = Waiting
		st.WaitsFor = what
		st.Ready = false
		st.Reason = reason
		st.Holders = holders
	})
}

// Explain changes the reason of a state that lasts, and the processes that are in the way.
func (s *Store) Explain(reason string, holders []kmod.Holder) {
	s.Change(func(st *Snapshot) {
		st.Reason = reason
		st.Holders = holders
	})
}

// Count changes the counters.
func (s *Store) Count(edit func(*Counters)) {
	s.Change(func(st *Snapshot) { edit(&st.Counters) })
}

// Record records the driver that is up, before it is changed: a successor takes down what the
// record names.
func (s *Store) Record(d Driver) {
	s.Change(func(st *Snapshot) { st.Up = &d })
}

// Unrecord records that no driver is up.
func (s *Store) Unrecord() {
	s.Change(func(st *Snapshot) { st.Up = nil })
}

// Daemons records the daemons that run.
func (s *Store) Daemons(states []daemons.State) {
	s.Change(func(st *Snapshot) { st.Daemons = states })
}

// Companions records the modules beside the driver's own.
func (s *Store) Companions(states []Companion) {
	s.Change(func(st *Snapshot) { st.Companions = states })
}

// GPUs records the GPUs, and the version of CUDA that the driver itself reports; "" changes
// nothing.
func (s *Store) GPUs(gpus []GPU, cuda string) {
	s.Change(func(st *Snapshot) {
		st.GPUs = gpus
		st.reportCUDA(cuda)
	})
}

// Fail records why a start or the service failed, cut to a readable length.
func (s *Store) Fail(cause error) {
	const most = 2048
	s.Change(func(st *Snapshot) {
		pod := st.Pod
		if pod != "" && st.PodSpace != "" {
			pod = st.PodSpace + "/" + pod
		}
		st.LastFailure = &Failure{
			Time:   s.now().UTC().Truncate(time.Second),
			Wanted: st.Wanted,
			Pod:    pod,
			Reason: cut(cause.Error(), most),
		}
	})
}

// Stop says that the instance takes the driver down; the reason is that of a failure, or "".
func (s *Store) Stop(reason string) {
	s.Change(func(st *Snapshot) {
		st.State = Stopping
		st.Ready = false
		st.Phase = ""
		if reason != "" {
			st.Reason = reason
		}
	})
}

// Clear records that this instance has nothing up any more: daemons, GPUs and companions.
func (s *Store) Clear() {
	s.Change(func(st *Snapshot) {
		st.Holders = nil
		st.Daemons = nil
		st.GPUs = nil
		st.Companions = nil
	})
}

// End is the last change of an instance whose status stays. Its daemons end with its container.
func (s *Store) End(state State, reason string) {
	s.Change(func(st *Snapshot) {
		st.State = state
		st.Ready = false
		st.Reason = reason
		st.Daemons = nil
	})
}
