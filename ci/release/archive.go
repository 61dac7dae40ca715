package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// member is a file of an archive.
type member struct {
	name string
	file string
	mode int64
}

// archives makes one archive for each platform, with all that belongs to driver-build in one folder.
func (m *maker) archives(context.Context) error {
	pages, err := m.manPages()
	if err != nil {
		return err
	}
	for _, p := range platforms {
		members := []member{{"driver-build", m.driverBuild(p), 0o755}}
		for _, f := range m.forImages() {
			members = append(members, member{f.name, f.path, 0o755})
		}
		for _, name := range []string{"LICENSE", "CHANGELOG.md", "README.md"} {
			members = append(members, member{name, filepath.Join(m.source.dir, name), 0o644})
		}
		for _, c := range completions {
			members = append(members, member{completionsDir + "/" + c.file, filepath.Join(m.work, completionsDir, c.file), 0o644})
		}
		for _, page := range pages {
			members = append(members, member{manDir + "/" + filepath.Base(page), page, 0o644})
		}
		name := "driver-build-" + m.source.bare() + "-" + p.String()
		if err := writeArchive(filepath.Join(m.out, name+".tar.gz"), name, members, m.source.time); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeArchive makes a .tar.gz whose bytes depend on the members alone: root owns them, and all have one
// time.
func writeArchive(file, dir string, members []member, at time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := gzip.NewWriter(out)
	w := tar.NewWriter(z)
	made := map[string]bool{}
	for _, m := range members {
		name := path.Join(dir, m.name)
		if parent := path.Dir(name); !made[parent] {
			made[parent] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: parent + "/", Mode: 0o755, ModTime: at}); err != nil {
				return err
			}
		}
		if err := addMember(w, name, m, at); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), z.Close())
}

func addMember(w *tar.Writer, name string, m member, at time.Time) error {
	f, err := os.Open(m.file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: m.mode, ModTime: at}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
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
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
