package makeself

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
)

// Platform is NVIDIA's word for the architecture in its redist folder.
func (a *Archive) Platform() string {
	if a.Arch == "aarch64" {
		return "linux-sbsa"
	}
	return "linux-x86_64"
}

// RedistName is the file name of the same driver in NVIDIA's redist folder.
func (a *Archive) RedistName() string { return a.redistTop() + ".tar.xz" }

func (a *Archive) redistTop() string {
	return fmt.Sprintf("nvidia_driver-%s-%s-archive", a.Platform(), a.Version)
}

// WriteRedist writes the driver as an archive of NVIDIA's redist folder: xz, one top folder, libraries,
// programs and documents in folders of their own, and the links of libraries beside them.
func (a *Archive) WriteRedist(ctx context.Context, w io.Writer) error {
	c, err := a.xz(ctx, w)
	if err != nil {
		return fmt.Errorf("generate archive %s: %w", a.RedistName(), err)
	}
	if a.RawTar != nil {
		_, err = c.Write(a.RawTar)
	} else {
		err = a.writeRedistTar(ctx, c)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("generate archive %s: %w", a.RedistName(), err)
	}
	return nil
}

func (a *Archive) writeRedistTar(ctx context.Context, w io.Writer) error {
	manifest := a.manifest()
	members := []Member{{Name: ".manifest", Mode: 0o644, Size: int64(len(manifest)), Open: Bytes(manifest)}}
	for _, m := range a.Members {
		if m.Line != "" && (m.Open != nil || strings.HasPrefix(m.Name, "lib")) { // not makeself's own files
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(x, y Member) int {
		return cmp.Compare(crc32.ChecksumIEEE([]byte(x.Name)), crc32.ChecksumIEEE([]byte(y.Name)))
	})
	t := tar.NewWriter(w)
	top, linked := a.redistTop(), map[string]bool{}
	for _, m := range members {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(top, redistPlace(m))
		if m.Open == nil {
			words := strings.Fields(m.Line)
			target := words[len(words)-2] // the last word is MODULE:tag
			if linked[name] || strings.Contains(m.Line, "COMPAT32") || strings.Contains(target, "/") {
				continue
			}
			linked[name] = true
			if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: a.Time}); err != nil {
				return err
			}
			continue
		}
		if err := a.writeRedistMember(t, name, m); err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
	}
	return t.Close()
}

func (a *Archive) writeRedistMember(t *tar.Writer, name string, m Member) (err error) {
	content, err := m.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	hdr := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(m.Mode.Perm()), Size: m.Size, Uid: 1000, Gid: 1000, ModTime: a.Time}
	if err := t.WriteHeader(hdr); err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}

// redistPlace is where a member lies in an archive of the redist folder.
func redistPlace(m Member) string {
	typ, _, _ := strings.Cut(m.Line, " ")
	for _, f := range []struct{ from, to string }{{"32/", "lib32/"}, {"html/", "docs/"}, {"libglvnd_install_checker/", "tests/glvnd/"}} {
		if rest, ok := strings.CutPrefix(m.Name, f.from); ok {
			return f.to + rest
		}
	}
	switch {
	case m.Name == ".manifest":
		return "MANIFEST"
	case m.Name == "NVIDIA_Changelog":
		return "CHANGELOG"
	case m.Name == "README.txt":
		return "README"
	case m.Name == "LICENSE" || strings.Contains(m.Name, "/"):
		return m.Name
	case typ == "WINE_LIB":
		return "wine/" + m.Name
	case typ == "MANPAGE":
		return "man/man1/" + m.Name
	case m.Name == "nvidia-smi":
		return "sbin/" + m.Name
	case strings.HasPrefix(m.Name, "lib"):
		return "lib/" + m.Name
	case strings.Contains(typ, "BINARY") || typ == "NVIDIA_MODPROBE":
		return "bin/" + m.Name
	case strings.Contains(typ, "JSON") || strings.HasSuffix(typ, "_ICD"):
		return "etc/" + m.Name
	}
	return "share/" + m.Name
}
