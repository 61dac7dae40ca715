package makeself

import (
	"archive/tar"
	"bytes"
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

// manifest renders the .manifest: eight header lines, then one line for each member.
func (a *Archive) manifest() []byte {
	if a.Manifest != nil {
		return a.Manifest
	}
	modules := a.Modules
	if len(modules) == 0 {
		modules = []string{"nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm"}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n%s\n \n%s \n \n \n./kernel/\n./kernel/precompiled/\n", description(a.Arch), a.Version, strings.Join(modules, " "))
	for _, m := range a.Members {
		if m.Line == "" {
			continue
		}
		name, mode := m.Name, fmt.Sprintf("%04o", uint32(m.Mode.Perm()))
		switch {
		case strings.HasPrefix(name, "32/"):
			name = "./" + name
		case strings.HasPrefix(m.Line, "NVIDIA_MODPROBE "):
			mode = "04755"
		}
		if m.Open == nil {
			name, mode = path.Base(name), "0000"
		}
		fmt.Fprintf(&b, "%s %s %s\n", name, mode, m.Line)
	}
	return b.Bytes()
}

// Render returns the .manifest, for tests that change it.
func (a *Archive) Render() []byte { return a.manifest() }

// writeTar writes the payload in the layout of NVIDIA's: GNU tar, names that begin with ./, no member for the
// top directory, every directory before its content, no other order.
func (a *Archive) writeTar(ctx context.Context, w io.Writer) error {
	manifest := a.manifest()
	members := []Member{{Name: ".manifest", Mode: 0o644, Size: int64(len(manifest)), Open: Bytes(manifest)}}
	for _, m := range a.Members {
		if m.Open != nil {
			members = append(members, m)
		}
	}
	slices.SortStableFunc(members, func(x, y Member) int {
		return cmp.Compare(crc32.ChecksumIEEE([]byte(x.Name)), crc32.ChecksumIEEE([]byte(y.Name)))
	})
	t := tar.NewWriter(w)
	dirs := map[string]bool{".": true}
	for _, m := range members {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.writeDirs(t, path.Dir(m.Name), dirs); err != nil {
			return err
		}
		if err := a.writeMember(t, m); err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
	}
	return t.Close()
}

func (a *Archive) writeDirs(t *tar.Writer, dir string, done map[string]bool) error {
	if done[dir] {
		return nil
	}
	if err := a.writeDirs(t, path.Dir(dir), done); err != nil {
		return err
	}
	done[dir] = true
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./" + dir + "/", Mode: 0o755, ModTime: a.Time, Format: tar.FormatGNU})
}

func (a *Archive) writeMember(t *tar.Writer, m Member) (err error) {
	content, err := m.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	// The owner is a user of some build machine; readers must ignore it.
	hdr := &tar.Header{Typeflag: tar.TypeReg, Name: "./" + m.Name, Mode: int64(m.Mode.Perm()), Size: m.Size,
		Uid: 1000, Gid: 1000, Uname: "builder", Gname: "builder", ModTime: a.Time, Format: tar.FormatGNU}
	if err := t.WriteHeader(hdr); err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}
