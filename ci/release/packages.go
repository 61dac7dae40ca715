package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	maintainer  = "driver-container contributors <driver-container@example.org>"
	description = "builds NVIDIA driver images for Kubernetes"
	homepage    = "https://" + modulePath
)

// packages makes a .deb and an .rpm for each architecture of Linux, with dpkg-deb and rpmbuild,
// which give files that are newer than SOURCE_DATE_EPOCH that time. The programs need no library,
// so the packages need no other package.
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
		members := append(
			m.programsOf(platform{"linux", arch}, "usr/bin", "usr/lib/driver-build"),
			member{
				"usr/share/doc/driver-build/copyright",
				filepath.Join(m.source.dir, "LICENSE"),
				0o644,
			},
			member{
				"usr/share/doc/driver-build/CHANGELOG.md",
				filepath.Join(m.source.dir, "CHANGELOG.md"),
				0o644,
			},
		)
		for _, c := range completions {
			members = append(
				members,
				member{c.installed, filepath.Join(m.work, completionsDir, c.file), 0o644},
			)
		}
		for _, page := range pages {
			members = append(
				members,
				member{"usr/share/man/man1/" + filepath.Base(page) + ".gz", page + ".gz", 0o644},
			)
		}
		root := filepath.Join(m.work, "root-"+arch)
		if err := stage(root, members); err != nil {
			return err
		}
		if err := m.rpm(ctx, root, version, machine); err != nil {
			return fmt.Errorf("rpm for %s (is rpmbuild of the package rpm there?): %w", arch, err)
		}
		if err := m.deb(ctx, root, version, arch); err != nil {
			return fmt.Errorf("deb for %s (is dpkg-deb there?): %w", arch, err)
		}
	}
	return nil
}

func (m *maker) deb(ctx context.Context, root, version, arch string) error {
	control := fmt.Sprintf(
		"Package: driver-build\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nSection: admin\nPriority: optional\nHomepage: %s\nDescription: %s\n",
		version,
		arch,
		maintainer,
		homepage,
		description,
	)
	if err := os.Mkdir(filepath.Join(root, "DEBIAN"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "DEBIAN", "control"), []byte(control), 0o644); err != nil {
		return err
	}
	_, err := output(
		ctx,
		m.work,
		"dpkg-deb",
		"--root-owner-group",
		"-Zgzip",
		"-z6",
		"--build",
		root,
		filepath.Join(m.out, "driver-build_"+version+"_"+arch+".deb"),
	)
	return err
}

// rpm runs rpmbuild, which copies the root and adds nothing of its own: no time, no host, no links
// by build ID, no compression of pages.
func (m *maker) rpm(ctx context.Context, root, version, machine string) error {
	var files strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Fprintf(&files, "/%s\n", strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		return err
	}
	spec := fmt.Sprintf(
		"Name: driver-build\nVersion: %s\nRelease: 1\nSummary: %s\nLicense: Apache-2.0\nURL: %s\nAutoReqProv: no\n"+
			"%%description\n%s.\n%%install\ncp -a %s/. %%{buildroot}\n%%files\n%%defattr(-,root,root)\n%%dir /usr/lib/driver-build\n%s",
		version,
		description,
		homepage,
		description,
		root,
		files.String(),
	)
	top := filepath.Join(m.work, "rpm-"+machine)
	if err := os.Mkdir(top, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(top, "driver-build.spec"), []byte(spec), 0o644); err != nil {
		return err
	}
	args := []string{"rpmbuild", "-bb", "--quiet", "--target", machine + "-linux"}
	for _, define := range []string{
		"_topdir " + top, "_rpmdir " + m.out, "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", "_buildhost localhost", "_build_id_links none",
		"__os_install_post %{nil}", "debug_package %{nil}", "use_source_date_epoch_as_buildtime 1", "clamp_mtime_to_source_date_epoch 1",
		"source_date_epoch_from_changelog 0", "_binary_payload w6.gzdio",
	} {
		args = append(args, "--define", define)
	}
	_, err = output(ctx, top, append(args, filepath.Join(top, "driver-build.spec"))...)
	return err
}
