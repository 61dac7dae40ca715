package status

import "slices"

// LockPhase is the first phase of a start (Snapshot.Phase): the instance waits for the node's lock.
const LockPhase = "lock"

// ReplacePhase is the first one that touches a driver that works.
const ReplacePhase = "replace"

// Phases returns the phases of a start, in their order.
func Phases() []string {
	return []string{
		LockPhase,
		"recover",
		"survey",
		"preflight",
		"modules",
		"stage",
		ReplacePhase,
		"root",
		"load",
		"companions",
		"nodes",
		"daemons",
		"verify",
	}
}

// Replaces reports whether a start may change the driver in this phase.
func Replaces(phase string) bool {
	all := Phases()
	return slices.Contains(all[slices.Index(all, ReplacePhase):], phase)
}
