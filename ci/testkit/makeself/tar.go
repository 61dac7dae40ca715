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

// entry is a member at its place in a tar; with a target it is a link.
type entry struct {
	Member
	target string
}

func (a *Archive) manifest(name string) entry {
	text := a.Render()
	return entry{Member: Member{Name: name, Mode: 0o644, Size: int64(len(text)), Open: Bytes(text)}}
}

// runEntries has names that begin with ./, as NVIDIA's.
func (a *Archive) runEntries() []entry {
	all := []entry{a.manifest("./.manifest")}
	for _, m := range a.Members {
		if m.Open != nil {
			m.Name = "./" + m.Name
			all = append(all, entry{Member: m})
		}
	}
	return all
}

// WriteRedist writes the driver as an archive of NVIDIA's redist folder: xz, one top folder,
// libraries, programs and the rest in folders of their own, and the links of libraries beside them.
func (a *Archive) WriteRedist(ctx context.Context, w io.Writer) error {
	return a.payload(ctx, w, "xz", a.redistEntries)
}

func (a *Archive) redistEntries() []entry {
	platform := "x86_64"
	if a.Arch == "aarch64" {
		platform = "sbsa"
	}
	top := fmt.Sprintf("nvidia_driver-linux-%s-%s-archive/", platform, a.Version)
	linked := map[string]bool{}
	all := []entry{a.manifest(top + "MANIFEST")}
	for _, m := range a.Members {
		e := entry{Member: m}
		switch rest, is32 := strings.CutPrefix(m.Name, "32/"); {
		case m.Line == "": // makeself's own
			continue
		case is32:
			e.Name = "lib32/" + rest
		case m.Name == "LICENSE" || strings.Contains(m.Name, "/"):
		case strings.HasPrefix(m.Name, "lib"):
			e.Name = "lib/" + m.Name
		case strings.Contains(m.Line, "BINARY"):
			e.Name = "bin/" + m.Name
		default:
			e.Name = "share/" + m.Name
		}
		e.Name = top + e.Name
		if m.Open == nil {
			words := strings.Fields(m.Line)
			e.target = words[len(words)-2] // the last word is MODULE:tag
			if linked[e.Name] || strings.Contains(m.Line, "COMPAT32") ||
				strings.Contains(e.target, "/") {
				continue
			}
			linked[e.Name] = true
		}
		all = append(all, e)
	}
	return all
}

// writeTar writes GNU tar: no member for the top directory, every directory before its content, no
// other order.
func writeTar(ctx context.Context, w io.Writer, entries []entry) error {
	order := func(e entry) uint32 { return crc32.ChecksumIEEE([]byte(e.Name)) }
	slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Compare(order(x), order(y)) })
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
	for _, e := range entries {
		dir, _ := path.Split(e.Name)
		if err := errors.Join(ctx.Err(), mkdir(dir)); err != nil {
			return err
		}
		if err := e.write(t); err != nil {
			return fmt.Errorf("member %s: %w", e.Name, err)
		}
	}
	return t.Close()
}

func (e entry) write(t *tar.Writer) error {
	// The owner is a user of some build machine; readers must ignore it.
	hdr := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     e.Name,
		Mode:     int64(e.Mode.Perm()),
		Size:     e.Size,
		Uid:      1000,
		Gid:      1000,
		Uname:    "builder",
		Gname:    "builder",
		Format:   tar.FormatGNU,
	}
	if e.target != "" {
		hdr.Typeflag = tar.TypeSymlink
		hdr.Linkname = e.target
		return t.WriteHeader(hdr)
	}
	content, err := e.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	err = t.WriteHeader(hdr)
	if err != nil {
		return err
	}
	_, err = io.Copy(t, content)
	return err
}
