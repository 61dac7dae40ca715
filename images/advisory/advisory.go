// Package advisory says what people should know about a driver before they use it: what the matrix says,
// and the end of life of its branch, which driver-build knows. Whether that is a warning depends on the
// day, which the caller gives. Kernels that break a driver are of the matrix too, and are judged in
// package recipe.
package advisory

import (
	"slices"
	"strings"
	"sync"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// branches is the built-in table, which many calls ask.
var branches = sync.OnceValue(func() *releases.Table {
	table, err := releases.Builtin()
	if err != nil {
		return new(releases.Table) // not reached: the tests of package releases read it
	}
	return table
})

// Of returns the advisories of a driver of the matrix. The matrix may say otherwise when its branch ends.
func Of(d matrix.Driver) []driverinfo.Advisory {
	return With(d.Version, d.Advisories)
}

// With returns the advisories of a release: those given, and the end of life of its branch unless they have
// one.
func With(version string, stated []driverinfo.Advisory) []driverinfo.Advisory {
	if slices.ContainsFunc(stated, func(a driverinfo.Advisory) bool { return a.Kind == driverinfo.EndOfLife }) {
		return stated
	}
	b, ok := branches().Branch(version)
	if !ok || b.End == "" {
		return stated
	}
	a := driverinfo.Advisory{ID: "end-of-life-" + strings.ToLower(b.Name), Kind: driverinfo.EndOfLife, Until: b.End, Source: b.EndSource}
	if b.End == releases.EndPassed {
		a.Until = ""
	}
	return append(slices.Clone(stated), a)
}
