package kbuild

import (
	"slices"

	"github.com/driver-container/driver-container/kmod"
)

// Companion is a kernel module of another project that is compiled against the driver's modules: nvidia-fs or
// gdrdrv. Its file is in the set beside theirs.
type Companion struct {
	Name    string // of the module, by file name without ".ko": driverinfo.NvidiaFS, driverinfo.GDRDrv
	Version string
	Digest  string // of the archive or package that Source came from
	Source  string // the folder with its sources; never written
}

// ID returns what names the companion in a Key: equal IDs are equal sources.
func (c Companion) ID() string { return c.Name + " " + c.Version + " " + c.Digest }

func companionIDs(all []Companion) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID())
	}
	return ids
}

// Omission is a companion that a set does not have.
type Omission struct {
	Module string `json:"module"` // Companion.Name
	Reason string `json:"reason"` // the first error of its compile, one line
}

const (
	maxCompanions = 8    // of a key, and omissions of a set
	maxReason     = 1024 // bytes of Omission.Reason
)

// OmittedReason returns why a set does not have a companion; "" if it has it, or if it was never asked for.
func (s *Set) OmittedReason(name string) string {
	i := slices.IndexFunc(s.Omitted, func(o Omission) bool { return kmod.ModuleName(o.Module) == kmod.ModuleName(name) })
	if i < 0 {
		return ""
	}
	return s.Omitted[i].Reason
}
