package main

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/images/releases"
)

var (
	oldestKernel = regexp.MustCompile(`This is currently Linux kernel ([0-9.]+) or newer`)
	ebuildName   = regexp.MustCompile(`^nvidia-drivers-([0-9.]+)(-r[0-9]+)?\.ebuild$`)
	kernelMax    = regexp.MustCompile(`(?m)^MODULES_KERNEL_MAX=([0-9.]+)$`)
	nixLine      = regexp.MustCompile(
		`(version|sha256_64bit|sha256_aarch64) = "(?:sha256-)?([^"]+)"`,
	)
	manifest = regexp.MustCompile(`redistrib_([0-9.]+)\.json`)
)

// errShape says that a source has another form than the one that is known.
var errShape = errors.New("it has none of what is looked for: its form has changed")

// readme compares the oldest kernel of a tag. The list of GPUs reads its table of GPUs.
func (c *comparison) readme(name, text string) error {
	tag := path.Base(path.Dir(name))
	if m := oldestKernel.FindStringSubmatch(text); m != nil {
		if b, _ := c.table.Branch(tag); b.Kernel != m[1] {
			c.differ(
				name,
				"%s needs kernel %s, branches.tsv says %q of %s",
				tag,
				m[1],
				b.Kernel,
				releases.BranchOf(tag),
			)
		}
	}
	return nil
}

// ebuild compares the newest kernel. Later revisions of an ebuild have patches.
func (c *comparison) ebuild(name, text string) error {
	m := ebuildName.FindStringSubmatch(path.Base(name))
	most := kernelMax.FindStringSubmatch(text)
	if m == nil || most == nil {
		return errShape
	}
	r, ok := c.table.Release(m[1])
	switch {
	case m[2] != "":
	case !ok:
		c.differ(name, "releases.tsv lacks %s", m[1])
	case r.Kernel != most[1] && (r.Kernel == "" || strings.HasPrefix(r.Reason, "Gentoo")):
		c.differ(name, "%s compiles up to kernel %s, releases.tsv says %q", m[1], most[1], r.Kernel)
	}
	return nil
}

// nix compares the checksums of .run archives. What is not in base64 is of a release before 2020.
func (c *comparison) nix(name, text string) error {
	version := ""
	compared := 0
	for _, m := range nixLine.FindAllStringSubmatch(text, -1) {
		if m[1] == "version" {
			version = m[2]
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(m[2])
		if err != nil || len(sum) != 32 {
			continue
		}
		compared++
		arch := map[string]string{"sha256_64bit": "amd64", "sha256_aarch64": "arm64"}[m[1]]
		r, _ := c.table.Release(version)
		switch a, _ := r.Archive("", arch); {
		case r.Version == "":
			c.differ(name, "releases.tsv lacks %s", version)
		case a.SHA256 == "":
			c.differ(
				name,
				"checksums.tsv lacks %s for %s: %s",
				version,
				arch,
				hex.EncodeToString(sum),
			)
		case a.SHA256 != hex.EncodeToString(sum):
			c.differ(
				name,
				"%s for %s has sha256 %x, checksums.tsv says %s",
				version,
				arch,
				sum,
				a.SHA256,
			)
		}
	}
	if compared == 0 {
		return errShape
	}
	return nil
}

// index looks for manifests of releases that are not known, of branches that NVIDIA supports.
func (c *comparison) index(name, text string) error {
	found := manifest.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return errShape
	}
	for _, m := range found {
		b, _ := c.table.Branch(m[1])
		if _, ok := c.table.Release(m[1]); !ok && !b.Ended(c.at) {
			c.differ(name, "releases.tsv lacks %s", m[1])
		}
	}
	return nil
}
