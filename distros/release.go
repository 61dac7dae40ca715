package distros

import (
	"regexp"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/lazyregexp"
)

// Release is a kernel release split into its parts, for any system. Self-made names are split as
// far as they follow one of the schemes; Text is always complete.
type Release struct {
	Text    string // as in uname -r
	Version string // of the kernel: "5.14.0"; "" when the text begins with something else
	Build   string // what the system counts: "427.13.1.el9_4", "106", "150600.23.25"; may be ""
	// "generic", "cloud-amd64", "default", "rt", "64k", "uek"; "" for the plain kernel
	Flavour string
	Arch    string // as in uname -m, where the name has it: "x86_64"
	// the system's own mark in Build: "el9_4", "amzn2", "fc41"; only where the name has Arch
	Dist string
}

var (
	releaseVersion = lazyregexp.New(`^[0-9]+\.[0-9]+(?:\.[0-9]+)?`)
	// Red Hat and its derivatives: build, architecture, and a flavour after "+" or, up to el7 and
	// in Oracle's kernels, ".".
	releaseArch = lazyregexp.New(
		`^([0-9][^-]*)\.(` + kernelArchs() + `)(?:[.+]([a-z0-9][a-z0-9_-]*))?$`,
	)
	releaseDist = lazyregexp.New(`(?:^|\.)((?:el|fc|amzn)[0-9]+(?:_[0-9]+)*(?:uek)?)(?:\.|$)`)
	// The patch level in the build of real-time kernels of el7 and el8, which have no flavour after
	// the architecture.
	releaseRT = lazyregexp.New(`(?:^|\.)rt[0-9]+(?:\.|$)`)
)

// KernelKind says for which kernels no driver's modules can be made.
type KernelKind int

// The kinds of kernels.
const (
	OrdinaryKernel KernelKind = iota
	// TegraKernel is made for NVIDIA's Jetson, whose GPU only the driver of its own system drives.
	TegraKernel
	// WSLKernel is Microsoft's for Windows, whose driver the GPU has
	// (learn.microsoft.com/windows/wsl/tutorials/gpu-compute).
	WSLKernel
	// RealtimeKernel is built with PREEMPT_RT, where NVIDIA's build stops (preempt_rt_sanity_check
	// in its conftest.sh).
	RealtimeKernel
)

// kernelWords are words in the releases of a kind, between signs and digits. The first row that
// fits counts: Jetson has real-time kernels too, 5.15.136-rt-tegra.
var kernelWords = []struct {
	kind KernelKind
	word func() *regexp.Regexp
}{
	{
		TegraKernel,
		lazyregexp.New(`(?i)[^a-z](tegra|l4t)([^a-z]|$)`),
	}, // 4.9.140-l4t-r32.3.1 of meta-tegra
	{WSLKernel, lazyregexp.New(`(?i)[^a-z](microsoft|wsl)([^a-z]|$)`)},
	{
		RealtimeKernel,
		lazyregexp.New(`(?i)[^a-z](rt|realtime)([^a-z]|$)`),
	}, // 4.18.0-553.rt7.342.el8_10.x86_64, 6.8.1-1015-realtime
}

// Kind returns the kind of a kernel, as far as its name tells.
func (r Release) Kind() KernelKind {
	for _, of := range kernelWords {
		if of.word().MatchString(r.Text) {
			return of.kind
		}
	}
	return OrdinaryKernel
}

func kernelArchs() string {
	var names []string
	for _, a := range Archs() {
		names = append(names, a.Kernel)
	}
	return strings.Join(names, "|")
}

// ParseRelease splits the release of a kernel into its parts.
func ParseRelease(release string) Release {
	r := Release{Text: release, Version: releaseVersion().FindString(release)}
	rest := strings.TrimPrefix(release, r.Version)
	if m := releaseArch().FindStringSubmatch(strings.TrimPrefix(rest, "-")); m != nil &&
		strings.HasPrefix(rest, "-") {
		r.Build = m[1]
		r.Arch = m[2]
		if d := releaseDist().FindStringSubmatch(r.Build); d != nil {
			r.Dist = d[1]
		}
		r.Flavour = r.packageFlavour(m[3])
		return r
	}
	r.Flavour, _, _ = splitRelease(release)
	// SUSE's, the only flavour that begins with a digit
	if large := "64kb"; strings.HasSuffix(release, "-"+large) {
		r.Flavour = large
	}
	r.Build = strings.Trim(strings.TrimSuffix(rest, r.Flavour), "-.+")
	return r
}

// packageFlavour returns the flavour as the packages name it, from the text after the architecture
// and from the build.
func (r Release) packageFlavour(suffix string) string {
	before := ""
	switch {
	case strings.HasSuffix(r.Dist, "uek") && suffix != "" && suffix != "debug":
		return "uek" + suffix // kernel-uek64k
	case strings.HasSuffix(r.Dist, "uek"):
		before = "uek"
	case releaseRT().MatchString(r.Build):
		before = "rt"
	}
	if before != "" && suffix != "" {
		return before + "-" + suffix
	}
	return before + suffix
}

// Series returns the part of the version that limits drivers: "5.14".
func (r Release) Series() string {
	fields := strings.SplitN(r.Version, ".", 3)
	return strings.Join(fields[:min(len(fields), 2)], ".")
}

// WithoutFlavour returns the text without the flavour at its end: the part that flavours of one
// kernel share.
func (r Release) WithoutFlavour() string {
	if i := strings.LastIndexAny(r.Text, "+."); r.Arch != "" {
		if strings.HasSuffix(r.Text, "."+r.Arch) {
			return r.Text
		}
		return r.Text[:i]
	}
	return strings.TrimSuffix(strings.TrimSuffix(r.Text, r.Flavour), "-")
}

// elMinor returns the minor version of the system that a kernel was built for, "9.4" of "el9_4",
// and its major version.
func elMinor(dist string) (minor, major string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(dist, "uek"), "el")
	if !ok || rest == "" || strings.Trim(rest, "0123456789_") != "" {
		return "", "", false
	}
	fields := strings.Split(rest, "_")
	if slices.Contains(fields, "") {
		return "", "", false
	}
	if len(fields) > 1 {
		minor = fields[0] + "." + fields[1]
	}
	return minor, fields[0], true
}
