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

// Render returns the .manifest: eight header lines, then one line for each member.
func (a *Archive) Render() []byte {
	if a.Manifest != nil {
		return a.Manifest
	}
	var b bytes.Buffer
	fmt.Fprintf(
		&b,
		"%s%s\n%s\n \nnvidia nvidia-uvm nvidia-modeset nvidia-drm \n \n \n./kernel/\n./kernel/precompiled/\n",
		description,
		a.Arch,
		a.Version,
	)
	for _, m := range a.Members {
		name := m.Name
		mode := fmt.Sprintf("%04o", uint32(m.Mode.Perm()))
		switch {
		case m.Line == "":
			continue
		case m.Open == nil:
			name = path.Base(name)
			mode = "0000"
		case strings.HasPrefix(name, "32/"):
			name = "./" + name
		case strings.HasPrefix(m.Line, "NVIDIA_MODPROBE "):
			mode = "04755"
		}
		fmt.Fprintf(&b, "%s %s %s\n", name, mode, m.Line)
	}
	return b.Bytes()
}

// entries are the members of the tar, whose names begin with ./, as NVIDIA's.
func (a *Archive) entries() []Member {
	text := a.Render()
	all := []Member{
		{Name: "./.manifest", Mode: 0o644, Size: int64(len(text)), Open: Bytes(text)},
	}
	for _, m := range a.Members {
		if m.Open != nil {
			m.Name = "./" + m.Name
			all = append(all, m)
		}
	}
	return all
}

// writeTar writes GNU tar: no member for the top directory, every directory before its content, no
// other order.
func writeTar(ctx context.Context, w io.Writer, entries []Member) error {
	order := func(m Member) uint32 { return crc32.ChecksumIEEE([]byte(m.Name)) }
	slices.SortStableFunc(entries, func(x, y Member) int { return cmp.Compare(order(x), order(y)) })
	t := tar.NewWriter(w)
	dirs := map[string]bool{"": true, "./": true}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		above, _ := path.Split(strings.TrimSuffix(dir, "/"))
		if dirs[dir] {
			return nil
		}
		dirs[dir] = true
		if err := mkdir(above); err != nil {
			return err
		}
		return t.WriteHeader(
			&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, Format: tar.FormatGNU},
		)
	}
	for _, m := range entries {
		dir, _ := path.Split(m.Name)
		if err := errors.Join(ctx.Err(), mkdir(dir)); err != nil {
			return err
		}
		if err := m.write(t); err != nil {
			return fmt.Errorf("member %s: %w", m.Name, err)
		}
	}
	return t.Close()
}

func (m Member) write(t *tar.Writer) error {
	content, err := m.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	// The owner is a user of some build machine; readers must ignore it.
	err = t.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     m.Name,
		Mode:     int64(m.Mode.Perm()),
		Size:     m.Size,
		Uid:      1000,
		Gid:      1000,
		Uname:    "builder",
		Gname:    "builder",
		Format:   tar.FormatGNU,
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}
