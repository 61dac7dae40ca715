package nvredist

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/unxz"
	"github.com/driver-container/driver-container/images/runfile"
)

// ErrArchive says that an archive is not one of NVIDIA's redist folder.
var ErrArchive = failure.New(failure.Content, "no archive of NVIDIA's redist folder")

// Identity is what the top folder of an archive says about it: fabricmanager-linux-x86_64-580.178.04-archive.
type Identity struct {
	Component string // as in the name, which may differ from the manifest's: nvidia-imex
	Arch      string // "amd64", "arm64"
	Version   string
}

var topShape = regexp.MustCompile(`^([a-z][a-z0-9_-]{0,63})-(linux-x86_64|linux-sbsa)-([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})-archive$`)

// Extract reads an archive in one pass. It calls begin once, before the first member, and add for each file
// and link, whose names are below the top folder. Errors of begin and add are wrapped, others those of
// runfile.Unpack, as xz is.
func Extract(r io.Reader, xz unxz.Open, begin func(Identity) error, add func(runfile.Member, io.Reader) error) error {
	top := ""
	err := runfile.Unpack(r, xz, true, func(m runfile.Member, content io.Reader) error {
		first, name, ok := strings.Cut(m.Name, "/")
		if top == "" {
			found := topShape.FindStringSubmatch(first)
			if found == nil {
				return fmt.Errorf("%w: its top folder is %.200q, not <component>-<platform>-<version>-archive", ErrArchive, first)
			}
			if err := begin(Identity{Component: found[1], Arch: Archs[found[2]], Version: found[3]}); err != nil {
				return err
			}
			top = first
		}
		if first != top || !ok {
			return fmt.Errorf("%w: it is beside its top folder %s", ErrArchive, top)
		}
		m.Name = name
		return add(m, content)
	})
	if err != nil {
		return fmt.Errorf("archive of NVIDIA's redist folder: %w", err)
	}
	return nil
}

// folders maps the folders of a driver's archive to those of the .run archive, whose libraries and programs
// are in its root. The first prefix that matches counts. Other names stay.
var folders = []struct{ from, to string }{
	{"bin/", ""}, {"sbin/", ""}, {"etc/", ""}, {"lib/", ""}, {"share/", ""}, {"wine/", ""}, {"man/man1/", ""},
	{"lib32/", "32/"}, {"docs/", "html/"}, {"tests/glvnd/", "libglvnd_install_checker/"},
}

// renamed are the files of the top folder with other names in the .run archive.
var renamed = map[string]string{"MANIFEST": ".manifest", "CHANGELOG": "NVIDIA_Changelog", "README": "README.txt"}

// Place returns the name that a member of a driver's archive has in the .run archive of the same release.
func Place(name string) string {
	if other, ok := renamed[name]; ok {
		return other
	}
	for _, f := range folders {
		if rest, ok := strings.CutPrefix(name, f.from); ok {
			return f.to + rest
		}
	}
	return name
}
