package redist

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros/dpkg"
	"github.com/driver-container/driver-container/distros/readahead"
	"github.com/driver-container/driver-container/distros/unxz"
)

// Identity is what the top folder of an archive says about it: fabricmanager-linux-x86_64-580.178.04-archive.
type Identity struct {
	Component string // as in the name, which may differ from the manifest's: nvidia-imex
	Arch      string // "amd64", "arm64"
	Version   string
}

// Member is a file or a symbolic link of an archive.
type Member struct {
	Name string      // below the top folder, clean
	Mode fs.FileMode // permission
	Size int64
	Link string // target of a symbolic link; "" for a file
}

var topShape = regexp.MustCompile(`^([a-z][a-z0-9_-]{0,63})-(linux-x86_64|linux-sbsa)-([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})-archive$`)

// Extract reads an archive in one pass. It calls begin once, before the first member, and add for each file
// and link. Folders are passed over. Errors of begin and add are returned as they are. open decompresses; nil:
// in Go.
func Extract(ctx context.Context, r io.Reader, open unxz.Open, begin func(Identity) error, add func(Member, io.Reader) error) error {
	plain, err := dpkg.Unpack(cancellable{ctx, r}, ".xz", maxContent, open)
	if err != nil {
		return classify(err)
	}
	ahead := readahead.New(plain)
	err = untar(ahead, begin, add)
	if err == nil {
		_, err = io.Copy(io.Discard, ahead) // the decoder compares its checksum at the end
		err = classify(err)
	}
	ahead.Stop()
	return errors.Join(err, plain.Close())
}

func untar(r io.Reader, begin func(Identity) error, add func(Member, io.Reader) error) error {
	t := tar.NewReader(r)
	names := map[string]bool{}
	top := ""
	for n := 0; ; n++ {
		hdr, err := t.Next()
		switch {
		case errors.Is(err, io.EOF) && top == "":
			return fmt.Errorf("%w: it is empty", ErrArchive)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return classify(err)
		case n >= maxMembers:
			return fmt.Errorf("%w: it has more than %d members: %w", ErrArchive, maxMembers, ErrTooLarge)
		}
		first, name, err := split(hdr)
		if err != nil {
			return err
		}
		if top == "" {
			if err := identify(first, begin); err != nil {
				return err
			}
			top = first
		}
		m, isFile, err := member(hdr, name)
		switch {
		case first != top:
			return fmt.Errorf("%w: member %.200q is beside its top folder %s", ErrArchive, hdr.Name, top)
		case err != nil:
			return err
		case !isFile:
			continue
		case names[name]:
			return fmt.Errorf("%w: member %.200q a second time: %w", ErrArchive, hdr.Name, ErrUnsafe)
		}
		names[name] = true
		source := &content{r: t}
		if err := add(m, source); err != nil {
			if source.err != nil { // the archive's fault, whatever the callback made of it
				return fmt.Errorf("member %s: %w", name, classify(source.err))
			}
			return err
		}
	}
}

// identify passes on what the top folder says.
func identify(top string, begin func(Identity) error) error {
	found := topShape.FindStringSubmatch(top)
	if found == nil {
		return fmt.Errorf("%w: its top folder is %.200q, not <component>-<platform>-<version>-archive", ErrArchive, top)
	}
	return begin(Identity{Component: found[1], Arch: Archs[found[2]], Version: found[3]})
}

// split cleans a member's name and returns the top folder and the rest, "" for the top folder itself.
func split(hdr *tar.Header) (top, name string, err error) {
	refuse := func(why string) (string, string, error) {
		return "", "", fmt.Errorf("%w: member %.200q: its name %s: %w", ErrArchive, hdr.Name, why, ErrUnsafe)
	}
	switch {
	case hdr.Name == "" || len(hdr.Name) > maxName:
		return refuse(fmt.Sprintf("has %d bytes", len(hdr.Name)))
	case strings.HasPrefix(hdr.Name, "/"):
		return refuse("is absolute")
	case strings.Count(hdr.Name, "/") > maxDepth:
		return refuse(fmt.Sprintf("is deeper than %d folders", maxDepth))
	case strings.ContainsFunc(hdr.Name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }):
		return refuse("holds a character that no name of NVIDIA's has")
	}
	for part := range strings.SplitSeq(hdr.Name, "/") {
		if part == ".." {
			return refuse("climbs out of a folder")
		}
	}
	// A copy: a name out of an extended header shares the memory of the whole header.
	top, name, _ = strings.Cut(path.Clean(strings.Clone(hdr.Name)), "/")
	return top, name, nil
}

// member checks the kind of a member. isFile is false for folders.
func member(hdr *tar.Header, name string) (m Member, isFile bool, err error) {
	m = Member{Name: name, Mode: fs.FileMode(hdr.Mode) & fs.ModePerm, Size: hdr.Size}
	switch {
	case hdr.Typeflag == tar.TypeDir:
		return m, false, nil
	case name == "":
		return m, false, fmt.Errorf("%w: its top folder %.200q is no folder: %w", ErrArchive, hdr.Name, ErrUnsafe)
	case hdr.Typeflag == tar.TypeSymlink && hdr.Linkname != "" && len(hdr.Linkname) <= maxName:
		m.Link, m.Size = strings.Clone(hdr.Linkname), 0
		return m, true, nil
	case hdr.Typeflag != tar.TypeReg:
		return m, false, fmt.Errorf("%w: member %.200q is neither a file nor a folder nor a link (type %q): %w", ErrArchive, hdr.Name, hdr.Typeflag, ErrUnsafe)
	}
	for key := range hdr.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return m, false, fmt.Errorf("%w: member %.200q is a sparse file: %w", ErrArchive, hdr.Name, ErrUnsafe)
		}
	}
	if hdr.Size > maxContent {
		return m, false, fmt.Errorf("%w: member %.200q claims %d bytes: %w", ErrArchive, hdr.Name, hdr.Size, ErrTooLarge)
	}
	return m, true, nil
}

// classify makes damage of the compressed data or the tar an ErrArchive. Other errors, such as those of a
// disk, stay what they are.
func classify(err error) error {
	for _, damage := range []error{dpkg.ErrFormat, tar.ErrHeader, tar.ErrFieldTooLong, tar.ErrInsecurePath, io.ErrUnexpectedEOF} {
		if errors.Is(err, damage) && !errors.Is(err, ErrArchive) {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
	}
	return err
}

// content remembers a read error of the tar during the callback.
type content struct {
	r   io.Reader
	err error
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// cancellable ends with the cause of a context that is over.
type cancellable struct {
	ctx context.Context //nolint:containedctx // of one call of Extract
	r   io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
