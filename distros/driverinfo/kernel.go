package driverinfo

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// KernelRule is the range of kernel series that a driver compiles on, both ends included; "" is no
// limit.
type KernelRule struct {
	Min    string `json:"min,omitempty"`    // "3.10"
	Max    string `json:"max,omitempty"`    // "6.16"
	Reason string `json:"reason,omitempty"` // the source of Max, for people
	// Broken are ranges within the limits on which some or all modules do not work.
	Broken []Broken `json:"broken,omitempty"`
}

// IsZero reports whether the rule says nothing.
func (r KernelRule) IsZero() bool {
	return r.Min+r.Max+r.Reason == "" && len(r.Broken) == 0
}

// KernelError says that a kernel is outside of a rule, or that its release does not begin with a
// version.
type KernelError struct {
	Driver  string // "" when Check was called without an image
	Release string
	Rule    KernelRule
	TooNew  bool
	Unknown bool // Release does not begin with a version
}

// Name returns the name of the rule in Description.Overridden.
func (e *KernelError) Name() string {
	if e.TooNew {
		return KernelTooNew
	}
	return KernelTooOld
}

// Error returns the kernel, the limit and the reason for it.
func (e *KernelError) Error() string {
	driver := "the driver"
	if e.Driver != "" {
		driver = "driver " + e.Driver
	}
	switch {
	case e.Unknown:
		return fmt.Sprintf(
			"kernel release %.80q does not begin with a version: whether %s compiles on it is not known",
			e.Release,
			driver,
		)
	case !e.TooNew:
		return fmt.Sprintf(
			"kernel %s is older than %s, the oldest that %s compiles on",
			e.Release,
			e.Rule.Min,
			driver,
		)
	}
	text := fmt.Sprintf(
		"kernel %s is newer than %s, the newest that %s is known to compile on",
		e.Release,
		e.Rule.Max,
		driver,
	)
	if e.Rule.Reason != "" {
		text += " (" + e.Rule.Reason + ")"
	}
	return text
}

// Check compares a kernel release ("6.1.0-38-amd64") with the rule. For a limit "6.1" only two
// numbers count, so 6.1.192 is within it. The error is a *KernelError.
func (r KernelRule) Check(release string) error {
	if r.Min == "" && r.Max == "" {
		return nil
	}
	version := numbers(release)
	switch {
	case len(version) < 2:
		return &KernelError{Release: release, Rule: r, Unknown: true}
	case r.Max != "" && compare(version, numbers(r.Max)) > 0:
		return &KernelError{Release: release, Rule: r, TooNew: true}
	case r.Min != "" && compare(version, numbers(r.Min)) < 0:
		return &KernelError{Release: release, Rule: r}
	}
	return nil
}

// Series returns the version at the start of a kernel release: 6 and 1 of "6.1.0-38-amd64". ok is
// false without one.
func Series(release string) (major, minor int, ok bool) {
	if n := numbers(release); len(n) >= 2 {
		return n[0], n[1], true
	}
	return 0, 0, false
}

// numbers returns the first numbers of a release, at most three.
func numbers(release string) (n []int) {
	for len(n) < 3 {
		digits := release[:len(release)-len(strings.TrimLeft(release, "0123456789"))]
		if digits == "" || len(digits) > 4 {
			return n
		}
		value, err := strconv.Atoi(digits)
		if err != nil {
			return n
		}
		n = append(n, value)
		rest, dot := strings.CutPrefix(release[len(digits):], ".")
		if !dot {
			return n
		}
		release = rest
	}
	return n
}

// CompareKernels orders kernel series by their numbers: 5.4 < 5.15 < 6.1 < 6.12. Only the numbers
// that both have count, so 6.1.192 is within a limit of 6.1.
func CompareKernels(a, b string) int { return compare(numbers(a), numbers(b)) }

// compare orders versions by the numbers that both have.
func compare(a, b []int) int {
	n := min(len(a), len(b))
	return slices.Compare(a[:n], b[:n])
}

// comparePrecompiled orders by the version of the kernel, then by name: 6.1.0-9-amd64 before
// 6.1.0-38-amd64.
func comparePrecompiled(a, b Precompiled) int {
	return cmp.Or(distros.CompareReleases(a.Kernel, b.Kernel), cmp.Compare(a.Flavour, b.Flavour))
}
