package driver

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/compression"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/runfile"
)

// redistDriver is the driver's own name in the top folder of its archive.
const redistDriver = "nvidia_driver"

// extractRedist reads an archive of NVIDIA's redist folder in one pass and calls add for each file
// and link, whose names are below its top folder. That is
// fabricmanager-linux-x86_64-580.178.04-archive, of one of some components.
func extractRedist(
	r io.Reader,
	xz compression.OpenXZ,
	components []string,
	version, arch string,
	add func(runfile.Member, io.Reader) error,
) error {
	tops := make([]string, len(components))
	for i, name := range components {
		tops[i] = name + "-" + matrix.Platform(arch) + "-" + version + "-archive"
	}
	top := ""
	return runfile.Unpack(r, xz, true, func(m runfile.Member, content io.Reader) error {
		first, name, ok := strings.Cut(m.Name, "/")
		switch {
		case top == "" && !slices.Contains(tops, first):
			return fmt.Errorf(
				"%w: the archive is %.200q, not %s: correct its URL in the matrix",
				ErrContent,
				first,
				tops[0],
			)
		case top != "" && first != top || !ok:
			return fmt.Errorf("%w: it is beside the top folder %s", ErrContent, tops[0])
		}
		top = first
		m.Name = name
		return add(m, content)
	})
}

// redistFolders maps the folders of a driver's archive to those of the .run archive, whose
// libraries and programs are in its root. The first prefix that matches counts. Other names stay.
var redistFolders = []struct{ from, to string }{
	{"bin/", ""},
	{"sbin/", ""},
	{"etc/", ""},
	{"lib/", ""},
	{"share/", ""},
	{"wine/", ""},
	{"man/man1/", ""},
	{"lib32/", "32/"}, {"docs/", "html/"}, {"tests/glvnd/", "libglvnd_install_checker/"},
	{"MANIFEST", ".manifest"}, {"CHANGELOG", "NVIDIA_Changelog"}, {"README", "README.txt"},
}

// runName returns the name that a member of a driver's archive has in the .run archive of the same
// release.
func runName(name string) string {
	for _, f := range redistFolders {
		if rest, ok := strings.CutPrefix(name, f.from); ok &&
			(rest == "" || strings.HasSuffix(f.from, "/")) {
			return f.to + rest
		}
	}
	return name
}
