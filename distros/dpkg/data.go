package dpkg

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Data passes every member of data.tar to add, in the order of the archive. It may be called once.
// Names, and the targets of hard links, are clean and relative ("usr/bin/x", folders without a
// slash at their end); Data skips the root folder itself. It accepts only regular files, folders,
// symbolic links and hard links; anything else is ErrUnsafePath. The targets of symbolic links are
// those in the package, also absolute ones: the caller resolves them inside of its tree. r is valid
// until add returns and need not be read.
//
// Data returns add's error (errors.Is and As find it), or ends after it has read the whole stream,
// so that the checksums inside of the compressed stream were compared.
func (d *Deb) Data(add func(h *tar.Header, r io.Reader) error) (err error) {
	if d.done {
		return errors.New("deb: its data was read already")
	}
	d.done = true
	name := "deb: data.tar" + d.ending
	in, err := unpack(d.ar, d.ending, maxData, d.XZ)
	if err != nil {
		return fmt.Errorf("%s: %w", name, asFormat(err))
	}
	defer in.Close() //nolint:errcheck // only frees memory
	t := tar.NewReader(in)
	for range maxEntries {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return d.finish(name, in)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, asFormat(err))
		}
		if err := checkHeader(h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if h.Name == "" {
			continue
		}
		if err := add(h, body{t}); err != nil {
			return fmt.Errorf("%s: %s: %w", name, h.Name, err)
		}
	}
	return malformed("%s: more than %d members", name, maxEntries)
}

// body marks errors in the middle of a member, which add returns, as errors of the format.
type body struct{ io.Reader }

func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = malformed("%w", err)
	}
	return n, err
}

// finish reads to the end of the compressed stream, which has its checksum.
func (d *Deb) finish(name string, r io.Reader) error {
	if _, err := io.Copy(io.Discard, io.MultiReader(r, d.ar)); err != nil {
		return fmt.Errorf("%s: %w", name, asFormat(err))
	}
	return nil
}

// checkHeader checks a header and cleans its names.
func checkHeader(h *tar.Header) error {
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if h.Size > maxData {
		return malformed("%.100q: %d bytes, more than %d", h.Name, h.Size, int64(maxData))
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeSymlink:
	case tar.TypeDir:
		h.Name = name // "" is the root
		return nil
	case tar.TypeLink:
		target, err := cleanName(h.Linkname)
		if err != nil {
			return fmt.Errorf("target of hard link %.100q: %w", h.Name, err)
		}
		if target == "" {
			return fmt.Errorf("%.100q: %w: hard link to the root", h.Name, ErrUnsafePath)
		}
		h.Linkname = target
	default:
		return fmt.Errorf(
			"%.100q: %w: type %q, want file, folder or link",
			h.Name,
			ErrUnsafePath,
			h.Typeflag,
		)
	}
	if name == "" {
		return fmt.Errorf("%.100q: %w: no name", h.Name, ErrUnsafePath)
	}
	if h.Typeflag == tar.TypeSymlink && (h.Linkname == "" || strings.Contains(h.Linkname, "\x00")) {
		return fmt.Errorf("%.100q: %w: symbolic link to %.100q", h.Name, ErrUnsafePath, h.Linkname)
	}
	h.Name = name
	return nil
}

// cleanName turns "./usr/bin/" into "usr/bin" and "./" into "".
func cleanName(name string) (string, error) {
	if strings.HasPrefix(name, "/") || strings.Contains(name, "\x00") {
		return "", fmt.Errorf("%.100q: %w: absolute name", name, ErrUnsafePath)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%.100q: %w: leads out of its folder", name, ErrUnsafePath)
		}
	}
	if clean := path.Clean(name); clean != "." {
		return clean, nil
	}
	return "", nil
}
