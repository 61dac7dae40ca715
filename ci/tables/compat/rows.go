package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/matrix"
)

// minimalMatrix writes a matrix with Debian's packages of a driver: the sources of the modules, and of the
// other packages only those that an image must have.
func (l *laboratory) minimalMatrix(d driver) (file string, err error) {
	kernel := "nvidia-" + d.infix + "kernel-source"
	if d.open {
		kernel += ", nvidia-open-kernel-source"
	}
	cuda := "libcuda1"
	if d.infix != "" {
		cuda = "libnvidia-" + d.infix + "cuda1"
	}
	return l.writeMatrix(d, "packages", fmt.Sprintf(`    debian:
      systems: {%s: "%s"}
      archs: [%s]
      packages: [%s, libnvidia-%sml1, nvidia-%ssmi]
      kernel: [%s]
`, d.home, d.debian, arch, cuda, d.infix, d.infix, kernel))
}

// archiveMatrix writes a matrix with a .run archive of a driver.
func (l *laboratory) archiveMatrix(d driver, file string) (string, error) {
	digest, size, err := sum(file)
	if err != nil {
		return "", err
	}
	return l.writeMatrix(d, "archive", fmt.Sprintf("    archives:\n      %s: {url: \"https://archive.invalid/%s\", sha256: %s, size: %d}\n",
		arch, filepath.Base(file), digest, size))
}

func (l *laboratory) writeMatrix(d driver, kind, rest string) (string, error) {
	var b strings.Builder
	b.WriteString("systems:\n")
	for _, s := range l.matrix.Systems {
		if s.ID == d.home || kind == "archive" {
			writeSystem(&b, s)
		}
	}
	fmt.Fprintf(&b, "drivers:\n  - version: %s\n    flavours: [%s]\n%s", d.version, strings.Join(d.flavours(), ", "), rest)
	if err := l.writePatches(&b, d); err != nil {
		return "", err
	}
	name := filepath.Join(l.work, "matrix-"+kind+"-"+d.version+".yaml")
	return name, write(name, b.String())
}

func writeSystem(b *strings.Builder, s matrix.System) {
	fmt.Fprintf(b, "  - id: %s\n    base: %s\n    archs: [%s]\n    kernels: [%s]\n", s.ID, s.Base, arch, strings.Join(s.Kernels, ", "))
	if len(s.Components) > 0 {
		fmt.Fprintf(b, "    components: [%s]\n", strings.Join(s.Components, ", "))
	}
}

// writePatches copies the patches of a driver beside the matrix and writes their rows, with the limits that
// they lift.
func (l *laboratory) writePatches(b *strings.Builder, d driver) error {
	at := slices.IndexFunc(l.matrix.Drivers, func(known matrix.Driver) bool { return known.Version == d.version })
	if at < 0 || len(l.matrix.Drivers[at].Patches) == 0 {
		return nil
	}
	rule := l.matrix.Drivers[at].Unpatched
	b.WriteString("    kernel:\n")
	if rule.Max != "" {
		fmt.Fprintf(b, "      max: %s\n      reason: %q\n", rule.Max, rule.Reason)
	}
	for i, r := range rule.Broken {
		if i == 0 {
			b.WriteString("      broken:\n")
		}
		fmt.Fprintf(b, "        - {%s, reason: %q}\n", span(driverinfo.Span{From: r.From, Below: r.Below}, r.Flavours), r.Reason)
	}
	b.WriteString("    patches:\n")
	for _, p := range l.matrix.Drivers[at].Patches {
		file := filepath.Join(l.work, p.File)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), write(file, p.Text)); err != nil {
			return err
		}
		fmt.Fprintf(b, "      - file: %s\n        sha256: %s\n        flavours: [%s]\n        licence: %s\n        reason: %q\n        origin: %q\n        kernels:\n",
			p.File, p.SHA256, strings.Join(p.Flavours, ", "), p.Licence, p.Reason, p.Origin)
		for _, s := range p.Kernels {
			fmt.Fprintf(b, "          - {%s}\n", span(s, nil))
		}
	}
	return nil
}

// span returns the keys of a range of kernels.
func span(s driverinfo.Span, flavours []string) string {
	text := "from: " + s.From
	if s.Below != "" {
		text += ", below: " + s.Below
	}
	if len(flavours) > 0 {
		text += ", flavours: [" + strings.Join(flavours, ", ") + "]"
	}
	return text
}
