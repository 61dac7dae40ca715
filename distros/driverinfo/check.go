package driverinfo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// The forms of values. They are narrow on purpose: driver, id and flavour become parts of paths.
var (
	driverShape = lazyregexp.New(`^[1-9][0-9]{2,3}(\.[0-9]{1,4}){1,2}$`)
	branchShape = lazyregexp.New(`^R[1-9][0-9]{2,3}$`)
	wordShape   = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{0,63}$`)
	cudaShape   = lazyregexp.New(`^[1-9][0-9]?\.[0-9]{1,2}$`)
	seriesShape = lazyregexp.New(`^[0-9]{1,3}(\.[0-9]{1,4}){1,2}$`)
	// name and version
	packageShape = lazyregexp.New(`^[a-z0-9][a-z0-9.+-]{0,127} [A-Za-z0-9.+:~^_-]{1,127}$`)
	idShape      = lazyregexp.New(`^[0-9a-f]{64}$`)
	// The kernel bounds a release to 64 bytes (__NEW_UTS_LEN).
	releaseShape = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}$`)
)

const maxReason = 1024 // bytes of a text of an advisory

// check refuses what becomes a part of a path or of a label. The matrix has checked the rest, and a
// digest pins the image.
func (i Description) check() error {
	bad := func(what, got, want string) error {
		return malformed("%s %.80q is not %s", what, got, want)
	}
	for _, f := range []struct {
		what, got, want string
		shape           *regexp.Regexp
	}{
		{"driver", i.Driver, "a driver version, such as 535.261.03", driverShape()},
		{"branch", i.Branch, "a driver branch, such as R535", branchShape()},
		{"os", i.OS, "a system, such as debian12", wordShape()},
		{"arch", i.Arch, "an architecture, such as amd64", wordShape()},
		{"profile", i.Profile, "a profile, such as full", wordShape()},
		{"id", i.ID, "64 hex digits", idShape()},
	} {
		if !f.shape.MatchString(f.got) {
			return bad(f.what, f.got, f.want)
		}
	}
	if i.VGPU != "" && !slices.Contains(VGPULicences(), i.VGPU) {
		return bad("vgpu", i.VGPU, "one of "+strings.Join(VGPULicences(), ", "))
	}
	for _, series := range []string{i.Kernel.Min, i.Kernel.Max} {
		if series != "" && !seriesShape().MatchString(series) {
			return bad("kernel limit", series, "a kernel series, such as 5.15")
		}
	}
	if i.CUDA != "" && !cudaShape().MatchString(i.CUDA) {
		return bad("cuda", i.CUDA, "a version of CUDA, such as 12.8")
	}
	return i.checkLists()
}

func (i Description) checkLists() error {
	if len(i.Flavours) == 0 {
		return malformed("it names no flavour of the kernel modules")
	}
	if wrong := checkFlavours(i.Flavours); wrong != "" {
		return malformed("%s", wrong)
	}
	for _, rule := range i.Overridden {
		if !wordShape().MatchString(rule) {
			return malformed("overridden rule %.80q is not a name", rule)
		}
	}
	if err := i.checkCompanions(); err != nil {
		return err
	}
	for _, p := range i.Precompiled {
		switch {
		case !releaseShape().MatchString(p.Kernel):
			return malformed("modules for %.80q: this is no kernel release", p.Kernel)
		case p.Package != "" && !packageShape().MatchString(p.Package):
			return malformed("modules for %s: %.80q is no package", p.Kernel, p.Package)
		case !slices.Contains(i.Flavours, p.Flavour):
			return malformed(
				"%.80q modules for %s: the image has no such flavour",
				p.Flavour,
				p.Kernel,
			)
		}
	}
	return nil
}

// checkFlavours returns what is wrong with a list of flavours: "" if nothing is.
func checkFlavours(list []string) string {
	for n, f := range list {
		if f != Proprietary && f != Open || slices.Contains(list[:n], f) {
			return fmt.Sprintf(
				"flavours %.80q: each must be %s or %s, once",
				list,
				Proprietary,
				Open,
			)
		}
	}
	return ""
}
