package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// member is a file of a release: where it lies in an archive, an image or a package, and what it
// is.
type member struct {
	name string
	file string
	mode os.FileMode
}

// stage copies members below a new folder.
func stage(root string, members []member) error {
	for _, m := range members {
		content, err := os.ReadFile(m.file)
		if err != nil {
			return err
		}
		to := filepath.Join(root, m.name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, m.mode); err != nil {
			return err
		}
	}
	return nil
}

// pack makes a tar archive of what is in a folder. Its bytes depend on that alone: root owns all,
// and all have the commit's time.
func pack(ctx context.Context, s source, folder, archive string, what ...string) error {
	_, err := output(
		ctx,
		folder,
		append(
			[]string{
				"tar",
				"--create",
				"--format=gnu",
				"--sort=name",
				"--owner=root:0",
				"--group=root:0",
				fmt.Sprintf("--mtime=@%d", s.time.Unix()),
				"--use-compress-program=gzip -n",
				"--file",
				archive,
			},
			what...)...)
	return err
}

// archives makes one archive for each platform, with all that belongs to driver-build in one
// folder.
func (m *maker) archives(ctx context.Context) error {
	pages, err := m.manPages()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		members := m.programsOf(p, "", "")
		for _, name := range []string{"LICENSE", "CHANGELOG.md", "README.md"} {
			members = append(members, member{name, filepath.Join(m.source.dir, name), 0o644})
		}
		for _, c := range completions {
			members = append(
				members,
				member{
					completionsDir + "/" + c.file,
					filepath.Join(m.work, completionsDir, c.file),
					0o644,
				},
			)
		}
		for _, page := range pages {
			members = append(members, member{manDir + "/" + filepath.Base(page), page, 0o644})
		}
		name := "driver-build-" + m.source.bare() + "-" + p.String()
		if err := stage(filepath.Join(m.work, "archives", name), members); err != nil {
			return err
		}
		if err := pack(ctx, m.source, filepath.Join(m.work, "archives"), filepath.Join(m.out, name+".tar.gz"), name); err != nil {
			return err
		}
	}
	return nil
}

// checksums writes SHA256SUMS, as sha256sum reads it.
func (m *maker) checksums(context.Context) error {
	all, err := os.ReadDir(m.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, d := range all {
		sum, err := digest(filepath.Join(m.out, d.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, d.Name())
	}
	return os.WriteFile(filepath.Join(m.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func digest(file string) (string, error) {
	content, err := os.ReadFile(file)
	return fmt.Sprintf("%x", sha256.Sum256(content)), err
}
