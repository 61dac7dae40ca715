package packages

import (
	"fmt"
	"strings"

	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/rootfs"
)

// repositoriesName is the name of the files that tell an image's own package manager, and the node
// that looks for headers, of the matrix' repositories.
const repositoriesName = "driver-build"

// configure writes them as apt reads them, with their keys.
func (debManager) configure(tree *rootfs.Tree, all []matrix.Repository) error {
	var text strings.Builder
	for _, rep := range all {
		fmt.Fprintf(&text, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By:\n",
			strings.Join(rep.URIs, " "), strings.Join(rep.Suites, " "), strings.Join(rep.Components, " "))
		for line := range strings.Lines(strings.TrimSpace(rep.Key)) {
			line = strings.TrimSpace(line)
			if line == "" {
				line = "." // an empty line would end the paragraph
			}
			fmt.Fprintf(&text, " %s\n", line)
		}
		text.WriteByte('\n')
	}
	return tree.AddBytes(
		"etc/apt/sources.list.d/"+repositoriesName+".sources",
		0o644,
		[]byte(text.String()),
	)
}

// configure writes them as yum and dnf read them or, where the system has zypper, as that does.
func (rpmManager) configure(tree *rootfs.Tree, all []matrix.Repository) error {
	var text strings.Builder
	for i, rep := range all {
		id := fmt.Sprintf("%s-%d", repositoriesName, i+1)
		keys := rep.GPGKeys
		if rep.Key != "" {
			name := "etc/pki/rpm-gpg/RPM-GPG-KEY-" + id
			if err := tree.AddBytes(name, 0o644, []byte(rep.Key)); err != nil {
				return err
			}
			keys = []string{"file:///" + name}
		}
		fmt.Fprintf(
			&text,
			"[%s]\nname=Repository %d of the driver matrix\nbaseurl=%s\nenabled=1\ngpgcheck=1\ngpgkey=%s\n\n",
			id,
			i+1,
			strings.Join(rep.BaseURLs, " "),
			keyURLs(keys),
		)
	}
	dir := "etc/yum.repos.d/"
	if tree.Exists("etc/zypp/repos.d") {
		dir = "etc/zypp/repos.d/"
	}
	return tree.AddBytes(dir+repositoriesName+".repo", 0o644, []byte(text.String()))
}

// keyURLs are paths in the base as URLs, which is all that yum reads.
func keyURLs(paths []string) string {
	urls := make([]string, len(paths))
	for i, p := range paths {
		urls[i] = "file://" + strings.TrimPrefix(p, "file://")
	}
	return strings.Join(urls, " ")
}
