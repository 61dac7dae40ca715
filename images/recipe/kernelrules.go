package recipe

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// CheckKernel checks whether a driver's modules compile on a kernel, as far as the matrix knows;
// the error is a *driverinfo.KernelError.
func CheckKernel(d matrix.Driver, release string) error {
	if err := d.Kernel.Check(release); err != nil {
		return fmt.Errorf("driver %s: %w", d.Version, err)
	}
	return nil
}

// CheckFlavours is CheckKernel for the modules of some flavours, all of which have to work. A
// kernel of which it is not certain that it breaks one passes. The error may also be a
// *driverinfo.BrokenError.
func CheckFlavours(d matrix.Driver, k distros.Kernel, flavours []string) error {
	if err := CheckKernel(d, k.Release); err != nil {
		return err
	}
	kernel := driverinfo.Kernel{
		Release: k.Release,
		Version: driverinfo.UpstreamRelease(k.Release, k.Version),
	}
	for _, flavour := range flavours {
		broken := d.Kernel.CheckFlavour(kernel, flavour)
		if broken == nil || !broken.Certain {
			continue
		}
		broken.Driver = d.Version
		if other := working(d, kernel, flavours); other != "" {
			return fmt.Errorf("%w; --flavour %s works there", broken, other)
		}
		return broken
	}
	return nil
}

// working is a flavour that is not among some and that nothing speaks against; "" if there is none.
func working(d matrix.Driver, k driverinfo.Kernel, some []string) string {
	for _, flavour := range d.Flavours {
		if !slices.Contains(some, flavour) && d.Kernel.CheckFlavour(k, flavour) == nil {
			return flavour
		}
	}
	return ""
}

// AnyFlavour reports whether the modules of one flavour at least work on a kernel, as far as the
// matrix knows.
func AnyFlavour(d matrix.Driver, k distros.Kernel, flavours []string) bool {
	return slices.ContainsFunc(
		flavours,
		func(f string) bool { return CheckFlavours(d, k, []string{f}) == nil },
	)
}

// CompiledFlavours are those of the modules that an image for named kernels has: the chosen ones,
// or the one that the driver's installer would take.
func CompiledFlavours(t matrix.Target, chosen []string) []string {
	if len(chosen) > 0 {
		return slices.Clone(chosen)
	}
	return PreferredFlavours(t.Flavours, t.Driver.Version)[:1]
}

// Limits says in words on which kernels of its system modules of a target do not work.
func Limits(t matrix.Target) (all []string) {
	for _, b := range t.Driver.Kernel.Broken {
		affected := slices.DeleteFunc(
			slices.Clone(t.Flavours),
			func(f string) bool { return !b.Affects(f) },
		)
		one := driverinfo.KernelRule{Broken: []driverinfo.Broken{b}}
		concerns := func(series string) bool {
			return len(affected) > 0 &&
				one.CheckFlavour(driverinfo.Kernel{Release: series}, affected[0]) != nil
		}
		if !slices.ContainsFunc(t.System.Kernels, concerns) {
			continue
		}
		what := "no modules work"
		if len(affected) < len(t.Driver.Flavours) {
			what = "no " + affected[0] + " modules work"
		}
		all = append(all, fmt.Sprintf("%s %s: %s", what, b.Range(), b.Reason))
	}
	return all
}
