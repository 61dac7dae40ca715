package redist

import "strings"

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
