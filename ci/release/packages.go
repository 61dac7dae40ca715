package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed nfpm.yaml
var packaging string

// packages makes a .deb and an .rpm for each architecture of Linux with nfpm.
func (m *maker) packages(ctx context.Context) error {
	pages, err := m.manPages()
	if err != nil {
		return err
	}
	if _, err := output(ctx, m.work, append([]string{"gzip", "-9nk"}, pages...)...); err != nil {
		return err
	}
	// so that 0.3.0~dev is older than 0.3.0
	version := strings.ReplaceAll(m.source.bare(), "-", "~")
	for arch, machine := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		members := m.packageMembers(arch, pages)
		root := filepath.Join(m.work, "root-"+arch)
		if err := stage(root, members); err != nil {
			return err
		}
		config := filepath.Join(m.work, arch+".yaml")
		values := strings.NewReplacer("$ROOT", root, "$VERSION", version, "$ARCH", arch,
			"$TIME", m.source.time.Format(time.RFC3339))
		if err := os.WriteFile(config, []byte(values.Replace(packaging)), 0o644); err != nil {
			return err
		}
		for kind, name := range map[string]string{
			"deb": "driver-build_" + version + "_" + arch + ".deb",
			"rpm": "driver-build-" + version + "-1." + machine + ".rpm",
		} {
			file := filepath.Join(m.out, name)
			_, err := output(ctx, m.nfpm, "go", "tool", "nfpm", "package", "--config", config, "--packager", kind, "--target", file)
			if err != nil {
				return fmt.Errorf("%s for %s: %w", kind, arch, err)
			}
		}
	}
	return nil
}

// packageMembers are the files of a package by their paths on a system.
func (m *maker) packageMembers(arch string, pages []string) []member {
	document := func(name, source string) member {
		return member{"usr/share/doc/driver-build/" + name, filepath.Join(m.source.dir, source), 0o644}
	}
	members := append(
		m.programsOf(platform{"linux", arch}, "usr/bin", "usr/lib/driver-build"),
		document("copyright", "LICENSE"),
		document("CHANGELOG.md", "CHANGELOG.md"),
	)
	for _, c := range completions {
		file := filepath.Join(m.work, completionsDir, c.file)
		members = append(members, member{c.installed, file, 0o644})
	}
	for _, page := range pages {
		name := "usr/share/man/man1/" + filepath.Base(page) + ".gz"
		members = append(members, member{name, page + ".gz", 0o644})
	}
	return members
}
