package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
)

// ErrKernel means that a kernel was requested in words that cannot be read, or that match no
// kernel.
var ErrKernel = failure.New(failure.Usage, "no such kernel")

var (
	listedKernels = regexp.MustCompile(
		`^(?:([0-9]{1,3}\.[0-9]{1,4}):)?(?:all|latest(?::([1-9][0-9]{0,2}))?)$`,
	)
	kernelRelease = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,4}[A-Za-z0-9._+~-]*$`)
)

var kernelFlavour = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// CheckKernelFlavours returns an error for a text that cannot be the flavour of a kernel.
func CheckKernelFlavours(flavours []string) error {
	for _, f := range flavours {
		if !kernelFlavour.MatchString(f) {
			return fmt.Errorf(
				"--kernel-flavour %q is no flavour of a kernel: driver-build kernels lists them",
				f,
			)
		}
	}
	return nil
}

const maxRelease = 64 // bytes; the kernel's own bound, __NEW_UTS_LEN

// kernelSpec is one way to say which kernels.
type kernelSpec struct {
	release string // if it is just that one, offered or not
	series  string // "6.1", "": the system's own for latest, every one for all
	latest  bool
	count   int // with latest, of each flavour
}

// IsListed reports whether a spec of SelectKernels can only be resolved with the list of kernels of
// the repositories.
func IsListed(spec string) bool { return listedKernels.MatchString(spec) }

// SelectKernels turns specs into the releases of kernels, each once, the newest first. A spec is
//
//   - a release as uname -r says it, which need not be offered: planning finds out whether its headers exist;
//   - "all": everything offered, of the flavours if any are given;
//   - "latest" or "latest:3": the newest, or the three newest, of each of the flavours, or of the usual one.
//     Where the system has a default series for a flavour (see distros.Kernel), only kernels of that count;
//   - "6.12:latest", "6.12:latest:3", "6.12:all": the same for one series.
//
// Fewer kernels than "latest:3" asks for are no error. A flavour without any kernel is ErrKernel,
// and so is a spec of another form.
func SelectKernels(
	offered []distros.Kernel,
	specs, flavours []string,
	usual string,
) ([]string, error) {
	offered = slices.Clone(offered)
	slices.SortStableFunc(
		offered,
		func(a, b distros.Kernel) int { return distros.CompareReleases(b.Release, a.Release) },
	)
	var releases []string
	for _, text := range specs {
		spec, err := parseKernelSpec(text)
		if err != nil {
			return nil, err
		}
		if spec.release != "" {
			releases = append(releases, spec.release)
			continue
		}
		found, err := spec.choose(offered, flavours, usual)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrKernel, text, err)
		}
		releases = append(releases, found...)
	}
	slices.SortFunc(releases, func(a, b string) int { return distros.CompareReleases(b, a) })
	return slices.Compact(releases), nil
}

// CheckRelease returns [ErrKernel] for a text that is not the release of one kernel.
func CheckRelease(text string) error {
	if spec, err := parseKernelSpec(text); err != nil || spec.release == "" {
		return fmt.Errorf(
			"%w: %.80q: give a release as uname -r says it (6.1.0-38-amd64)",
			ErrKernel,
			text,
		)
	}
	return nil
}

func parseKernelSpec(text string) (kernelSpec, error) {
	if m := listedKernels.FindStringSubmatch(text); m != nil {
		s := kernelSpec{series: m[1], latest: strings.Contains(text, "latest"), count: 1}
		if m[2] != "" {
			s.count, _ = strconv.Atoi(m[2]) // three digits at most
		}
		return s, nil
	}
	if kernelRelease.MatchString(text) && len(text) <= maxRelease {
		return kernelSpec{release: text}, nil
	}
	hint := ""
	if near := distros.Nearest(text, []string{"latest", "all"}); len(near) > 0 {
		hint = "; did you mean " + near[0] + "?"
	}
	return kernelSpec{}, fmt.Errorf(
		"%w: %.80q: give a release as uname -r says it (6.1.0-38-amd64), latest, latest:N, all, or one of a series, such as 6.1:latest%s",
		ErrKernel,
		text,
		hint,
	)
}

// choose finds the kernels of a spec; offered is sorted, the newest first.
func (s kernelSpec) choose(
	offered []distros.Kernel,
	flavours []string,
	usual string,
) (releases []string, err error) {
	all := len(flavours) == 0 && !s.latest // kernels of any flavour
	if all {
		usual = ""
	}
	if len(flavours) == 0 {
		flavours = []string{usual}
	}
	for _, flavour := range flavours {
		some := slices.DeleteFunc(slices.Clone(offered), func(k distros.Kernel) bool {
			return !all && k.Flavour != flavour || s.series != "" && SeriesOf(k.Release) != s.series
		})
		if len(some) == 0 {
			return nil, notOffered(offered, s.series, flavour)
		}
		if s.latest && s.series == "" &&
			slices.ContainsFunc(some, func(k distros.Kernel) bool { return k.Default }) {
			some = slices.DeleteFunc(some, func(k distros.Kernel) bool { return !k.Default })
		}
		if s.latest {
			some = some[:min(len(some), s.count)]
		}
		for _, k := range some {
			releases = append(releases, k.Release)
		}
	}
	return releases, nil
}

// notOffered is the error for kernels that are not offered. It lists those that the repositories,
// or images with headers, offer.
func notOffered(offered []distros.Kernel, series, flavour string) error {
	what := "kernel"
	if series != "" {
		what += " of series " + series
	}
	if flavour != "" {
		what += " of flavour " + strconv.Quote(flavour)
	}
	var flavours, all, same []string
	for _, k := range offered {
		all = append(all, k.Release)
		if k.Flavour == flavour {
			same = append(same, k.Release)
		}
		if !slices.Contains(flavours, k.Flavour) {
			flavours = append(flavours, k.Flavour)
		}
	}
	if len(all) == 0 {
		return errors.New(
			"the package repositories offer no kernel that fits: name releases, and give the repository that has their headers with --mirror or in the matrix",
		)
	}
	slices.Sort(flavours)
	text := "the flavours there are " + strings.Join(flavours, ", ")
	if near := distros.Nearest(flavour, flavours); len(near) > 0 && len(same) == 0 {
		text += " (did you mean " + near[0] + "?)"
	}
	if len(same) > 0 {
		all = same
	}
	shown := all[:min(len(all), 5)]
	if len(shown) < len(all) {
		shown = append(
			slices.Clone(shown),
			fmt.Sprintf("... (%d in all; driver-build kernels lists them)", len(all)),
		)
	}
	return fmt.Errorf("there is no %s; %s; the kernels %s", what, text, strings.Join(shown, ", "))
}

// SeriesOf is "6.1" of "6.1.0-38-amd64".
func SeriesOf(release string) string {
	major, minor, ok := driverinfo.Series(release)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, minor)
}
