package driverinfo

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is a kernel, as rules look at it.
type Kernel struct {
	Release string // as in uname -r: "6.1.0-56-amd64"
	// the release of kernel.org that it was made from: "6.1.192"; "" if that is not known
	Version string
}

// Broken is a range of kernels within a rule's limits on which modules do not compile, or are of no
// use.
type Broken struct {
	From string `json:"from"` // the first version in it: "6.1.187"
	// the first version after it: "6.2"; "" if it has no end
	Below    string   `json:"below,omitempty"`
	Flavours []string `json:"flavours,omitempty"` // of the modules; empty: all
	Reason   string   `json:"reason"`             // what happens there, and who has seen it
}

// BrokenError says that modules of a flavour do not work on a kernel.
type BrokenError struct {
	Driver  string // "" when it is not known
	Flavour string
	Kernel  Kernel
	Broken  Broken
	// Certain is false if the kernel's release does not say whether it is in the range:
	// "6.1.0-56-amd64" for one that begins at 6.1.187.
	Certain bool
}

// Error names the kernel, the range and the reason.
func (e *BrokenError) Error() string {
	kernel := e.Kernel.Release
	if e.Kernel.Version != "" && !strings.HasPrefix(kernel, e.Kernel.Version) {
		kernel += " (" + e.Kernel.Version + ")"
	}
	driver := "the driver"
	if e.Driver != "" {
		driver = "driver " + e.Driver
	}
	if !e.Certain {
		return fmt.Sprintf(
			"the %s modules of %s do not work on kernels %s, and kernel %s does not say whether it is one of them: %s",
			e.Flavour,
			driver,
			e.Broken.Range(),
			kernel,
			e.Broken.Reason,
		)
	}
	return fmt.Sprintf(
		"the %s modules of %s do not work on kernel %s, nor on any other %s: %s",
		e.Flavour,
		driver,
		kernel,
		e.Broken.Range(),
		e.Broken.Reason,
	)
}

// Range returns the range in words: "from 6.1.187 on, below 6.2".
func (b Broken) Range() string {
	if b.Below == "" {
		return "from " + b.From + " on"
	}
	return "from " + b.From + " on, below " + b.Below
}

// Affects reports whether the range is about a flavour.
func (b Broken) Affects(flavour string) bool {
	return len(b.Flavours) == 0 || slices.Contains(b.Flavours, flavour)
}

// CheckFlavour looks for a kernel in the ranges for a flavour, and prefers a certain answer. It
// returns nil if nothing speaks against the modules.
func (r KernelRule) CheckFlavour(k Kernel, flavour string) *BrokenError {
	var doubt *BrokenError
	for _, b := range r.Broken {
		if !b.Affects(flavour) {
			continue
		}
		in, certain := b.contains(k)
		switch {
		case in && certain:
			return &BrokenError{Flavour: flavour, Kernel: k, Broken: b, Certain: true}
		case in && doubt == nil:
			doubt = &BrokenError{Flavour: flavour, Kernel: k, Broken: b}
		}
	}
	return doubt
}

// contains reports whether a kernel is in the range, and whether that is certain.
func (b Broken) contains(k Kernel) (in, certain bool) {
	version := numbers(k.Version)
	if len(version) == 0 {
		version = numbers(k.Release)
		if len(version) == 3 && version[2] == 0 {
			version = version[:2] // systems that count otherwise: 6.1.0-56
		}
	}
	if len(version) < 2 {
		return false, false
	}
	reaches, known := atLeast(version, numbers(b.From))
	if b.Below == "" {
		return reaches || !known, known
	}
	passed, alsoKnown := atLeast(version, numbers(b.Below))
	if known && !reaches || alsoKnown && passed {
		return false, true
	}
	return true, known && alsoKnown
}

// atLeast compares a version with a limit. known is false if the version has too few numbers to
// tell.
func atLeast(version, limit []int) (yes, known bool) {
	if c := compare(version, limit); c != 0 || len(version) >= len(limit) {
		return c >= 0, true
	}
	yes = !slices.ContainsFunc(limit[len(version):], func(n int) bool { return n != 0 })
	return yes, yes
}

// CheckFlavour compares a kernel and a flavour with the rule of the image, unless the rule was
// overridden.
func (i Description) CheckFlavour(k Kernel, flavour string) *BrokenError {
	broken := i.Kernel.CheckFlavour(k, flavour)
	if broken == nil || i.Overrides(KernelLimit) || i.Overrides(KernelBroken) {
		return nil
	}
	broken.Driver = i.Driver
	return broken
}

// Breaks is CheckFlavour without doubts: it returns nil if it is not certain that the kernel breaks
// the modules.
func (i Description) Breaks(k Kernel, flavour string) *BrokenError {
	if broken := i.CheckFlavour(k, flavour); broken != nil && broken.Certain {
		return broken
	}
	return nil
}
