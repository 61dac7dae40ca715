package main

import (
	"fmt"
	"path/filepath"
	"strings"

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
	name := filepath.Join(l.work, "matrix-"+kind+"-"+d.version+".yaml")
	return name, write(name, b.String())
}

func writeSystem(b *strings.Builder, s matrix.System) {
	fmt.Fprintf(b, "  - id: %s\n    base: %s\n    archs: [%s]\n    kernels: [%s]\n", s.ID, s.Base, arch, strings.Join(s.Kernels, ", "))
	if len(s.Components) > 0 {
		fmt.Fprintf(b, "    components: [%s]\n", strings.Join(s.Components, ", "))
	}
}
