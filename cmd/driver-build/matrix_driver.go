package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// addDriverOptions are the flags of the command.
type addDriverOptions struct {
	version          string
	matrixFile       string
	archs, urls      []string
	index, releases  string
	download, dryRun bool
}

// driverEntry is a driver on its way into the matrix.
type driverEntry struct {
	app     *app
	options addDriverOptions
	urls    map[string]string // by architecture, of --url
	index   []releases.Sum    // of --index
	known   knownDrivers

	driver  matrix.Driver
	sources map[string]string // by architecture: who says its sha256
	notes   []string
}

// firstOpen is the first branch with open kernel modules.
const firstOpen = "515"

// check refuses before anything is asked: mistakes in flags, a driver that is there, a file that cannot be edited.
func (n *driverEntry) check(text []byte) error {
	o := n.options
	n.urls, n.sources = map[string]string{}, map[string]string{}
	for _, arch := range o.archs {
		if arch != "amd64" && arch != "arm64" {
			return fmt.Errorf("--arch %q is not known: use amd64 or arm64", arch)
		}
	}
	for _, u := range o.urls {
		arch, rest, ok := strings.Cut(u, "=")
		if !ok || strings.Contains(arch, ":") { // no ARCH=: an address may hold a =
			arch, rest = "amd64", u
			if len(o.archs) == 1 {
				arch = o.archs[0]
			}
		}
		if arch != "amd64" && arch != "arm64" || n.urls[arch] != "" {
			return fmt.Errorf("--url %s: give [amd64=]URL or arm64=URL, each once", u)
		}
		n.urls[arch] = rest
	}
	n.driver = matrix.Driver{Version: o.version, Branch: releases.BranchOf(o.version), Flavours: []string{matrix.Proprietary}}
	if releases.Compare(n.driver.Branch, firstOpen) >= 0 {
		n.driver.Flavours = append(n.driver.Flavours, matrix.Open)
	}
	probe := n.driver
	probe.Archives = map[string]matrix.Archive{"amd64": {URL: "https://example.com/x.run", SHA256: strings.Repeat("0", 64)}}
	for arch, u := range n.urls {
		probe.Archives[arch] = matrix.Archive{URL: u, SHA256: strings.Repeat("0", 64)}
	}
	_, err := matrix.AddDriver(o.matrixFile, text, probe, nil)
	var wrong matrix.Errors
	if errors.Is(err, matrix.ErrLayout) && errors.As(err, &wrong) { // the entry itself: version or URL
		return fmt.Errorf("driver %s: %s", o.version, wrong[0].Message)
	}
	return err
}

// find fills in the driver: architectures, addresses, checksums, limits.
func (n *driverEntry) find(ctx context.Context, s *session) (err error) {
	if n.options.index != "" {
		if n.index, err = n.readIndex(ctx, s); err != nil {
			return err
		}
	}
	if err := n.look(ctx, s); err != nil {
		return err
	}
	release, _ := n.known.Release(n.options.version)
	archs := slices.Compact(slices.Sorted(slices.Values(n.options.archs)))
	if len(archs) == 0 {
		archs = slices.Sorted(maps.Keys(n.addresses(release)))
	}
	if len(archs) == 0 {
		return usageError{n.unknown()}
	}
	if v := release.Version; v != "" && v != n.options.version {
		return usageError{fmt.Errorf("driver %s is written %s", n.options.version, v)}
	}
	addresses := n.addresses(release)
	n.driver.Archives = map[string]matrix.Archive{}
	for _, arch := range archs {
		if addresses[arch] == "" {
			return usageError{fmt.Errorf("no address of driver %s for %s is known: give --url %s=URL", n.options.version, arch, arch)}
		}
		if n.driver.Archives[arch], err = n.archive(ctx, s, arch, addresses[arch], release); err != nil {
			return err
		}
	}
	n.limits(release)
	return nil
}

// look asks NVIDIA's list only when the table in this program does not have the release and nobody gave an address.
func (n *driverEntry) look(ctx context.Context, s *session) (err error) {
	from := n.options.releases
	if table, err := releases.Builtin(); err != nil {
		return err
	} else if r, ok := table.Release(n.options.version); from == "" && (ok && len(r.Archives) > 0 || len(n.addresses(r)) > 0) {
		from = "none"
	}
	if n.known, err = n.app.knownDrivers(ctx, s, from); err == nil {
		n.notes = append(n.notes, n.known.notes...)
	}
	return err
}

// addresses are where the archives are, by architecture: what the flags say counts.
func (n *driverEntry) addresses(r releases.Release) map[string]string {
	all := map[string]string{}
	for _, a := range r.Archives {
		all[a.Arch] = a.URL
	}
	for _, s := range n.index {
		if s.URL != "" && releases.Compare(s.Version, n.options.version) == 0 {
			all[s.Arch] = s.URL
		}
	}
	maps.Copy(all, n.urls)
	return all
}

// unknown says that nobody knows the release, and which ones are known.
func (n *driverEntry) unknown() error {
	err := fmt.Errorf("no source knows an archive of driver %s: give --url, and --index or --download", n.options.version)
	b, ok := n.known.Branch(n.options.version)
	if !ok {
		return fmt.Errorf("%w; no driver of branch %s is known", err, n.driver.Branch)
	}
	var versions []string
	for _, r := range b.Releases {
		if len(r.Archives) > 0 {
			versions = append(versions, r.Version)
		}
	}
	if near := distros.Nearest(n.options.version, versions); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w; known of %s are %s", err, b.Name, strings.Join(versions[max(0, len(versions)-5):], ", "))
}

// limits writes down what is known of the kernels, and says what is not.
func (n *driverEntry) limits(r releases.Release) {
	b, _ := n.known.Branch(n.options.version)
	n.driver.Kernel = matrix.KernelLimits{Min: b.Kernel, Max: r.Kernel, Reason: r.Reason}
	var missing []string
	if b.Kernel == "" {
		missing = append(missing, "min")
	}
	if r.Kernel == "" {
		missing = append(missing, "max")
	}
	if len(missing) > 0 {
		n.notes = append(n.notes, fmt.Sprintf("kernel %s of %s is not known and was left out: no pair is refused for it; add it when you know",
			strings.Join(missing, " and "), n.options.version))
	}
}

// comment names the sources above the entry, one line for architectures with the same.
func (n *driverEntry) comment() []string {
	byText := map[string][]string{}
	for _, arch := range slices.Sorted(maps.Keys(n.sources)) {
		byText[n.sources[arch]] = append(byText[n.sources[arch]], arch)
	}
	var lines []string
	for text, archs := range byText {
		of := ""
		if len(byText) > 1 {
			of = " of " + strings.Join(archs, " and ")
		}
		lines = append(lines, "sha256"+of+" from "+text)
	}
	slices.Sort(lines)
	return slices.Collect(func(yield func(string) bool) {
		for _, l := range lines {
			for _, part := range wrap(l, 110) {
				if !yield(part) {
					return
				}
			}
		}
	})
}

// wrap breaks a line at spaces, into pieces of at most so many bytes where words allow.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = cmp.Or(strings.TrimSpace(line+" "+word), word)
	}
	return append(lines, line)
}
