package inventory

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
)

// ErrFormat says that bytes are no list of files.
var ErrFormat = errors.New("not a valid list of an image's files")

// maxBytes bounds a list. The list of a large image, 40,000 files, has 8 MB.
const maxBytes = 128 << 20

var (
	sha256Shape = regexp.MustCompile(`^[0-9a-f]{64}$`)
	deviceShape = regexp.MustCompile(`^device=native,[0-9]+,[0-9]+$`)
)

// Read returns the bytes of the list in an image, at most 128 MiB. The error wraps fs.ErrNotExist
// without one.
func Read(tree *rootfs.Tree) ([]byte, error) {
	e, err := tree.Stat(recipe.FileList)
	if err != nil {
		return nil, err
	}
	r, err := e.Open()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", recipe.FileList, err)
	}
	if r.Size() > maxBytes {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrFormat, maxBytes)
	}
	return io.ReadAll(r)
}

// Decode reads what Encode wrote. Errors are ErrFormat.
func Decode(data []byte) (l List, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(header))
	if !ok || len(data) > maxBytes {
		return l, fmt.Errorf("%w: it does not begin with %q or is larger than %d bytes", ErrFormat, strings.TrimSpace(header), maxBytes)
	}
	if line, _, _ := bytes.Cut(rest, []byte("\n")); bytes.HasPrefix(line, []byte(configured)) {
		if err := json.Unmarshal(line[len(configured):], &l.Config); err != nil || l.Config == nil {
			return l, fmt.Errorf("%w: line 2: it is no configuration: %w", ErrFormat, err)
		}
		rest = rest[min(len(line)+1, len(rest)):]
	}
	files := make([]File, 0, bytes.Count(rest, []byte("\n")))
	for line := range bytes.Lines(rest) {
		f, err := decodeLine(strings.TrimSuffix(string(line), "\n"))
		if err != nil {
			return l, fmt.Errorf("%w: file %d: %w", ErrFormat, len(files)+1, err)
		}
		if n := len(files); n > 0 && files[n-1].Path >= f.Path {
			return l, fmt.Errorf("%w: file %d: %s does not come after %s", ErrFormat, n+1, f.Path, files[n-1].Path)
		}
		files = append(files, f)
	}
	l.Files = files
	return l, nil
}

func decodeLine(line string) (f File, err error) {
	name, words, _ := strings.Cut(line, " ")
	rest, ok := strings.CutPrefix(name, "./")
	if !ok {
		return f, fmt.Errorf("%.80q does not begin with ./", line)
	}
	if f.Path, err = unescape(rest); err != nil {
		return f, err
	}
	if p, err := rootfs.Clean(f.Path); err != nil || p != f.Path || p == "." {
		return f, fmt.Errorf("%.80q is no clean path", f.Path)
	}
	kind := ""
	for word := range strings.SplitSeq(words, " ") {
		key, value, _ := strings.Cut(word, "=")
		if key == "type" {
			kind = value
			continue
		}
		if err := f.set(key, value); err != nil {
			return f, fmt.Errorf("%s: %.80q: %w", f.Path, word, err)
		}
	}
	switch {
	case kind == "file" && sha256Shape.MatchString(f.SHA256) && f.Size >= 0:
		f.Kind = rootfs.File
	case kind == "dir" && f.SHA256 == "":
		f.Kind = rootfs.Dir
	case kind == "link" && f.Target != "":
		f.Kind = rootfs.Link
	case kind == "fifo" && f.Target == "", (kind == "char" || kind == "block") && deviceShape.MatchString(f.Target):
		f.Kind, f.Target = rootfs.Special, strings.TrimSpace(kind+" "+f.Target)
	default:
		return f, fmt.Errorf("%s: the type %.20q does not go with the other words", f.Path, kind)
	}
	if string(f.appendLine(nil)) != line { // another order of words, or words without effect: Encode did not write it
		return f, fmt.Errorf("%.80q is not how this list is written", line)
	}
	return f, nil
}

func (f *File) set(key, value string) (err error) {
	switch key {
	case "mode":
		bits, err := strconv.ParseUint(value, 8, 12)
		f.Mode = rootfs.FileMode(int64(bits)) //nolint:gosec // 12 bits
		return err
	case "uid":
		f.UID, err = strconv.Atoi(value)
	case "gid":
		f.GID, err = strconv.Atoi(value)
	case "size":
		f.Size, err = strconv.ParseInt(value, 10, 64)
	case "sha256digest":
		f.SHA256 = value
	case "link":
		f.Target, err = unescape(value)
	case "device":
		f.Target = "device=" + value
	default:
		return f.setXattr(key, value)
	}
	return err
}

func (f *File) setXattr(key, value string) error {
	name, ok := strings.CutPrefix(key, "xattr.")
	if !ok {
		return errors.New("this keyword is not known")
	}
	name, err := unescape(name)
	if err != nil {
		return err
	}
	b, err := base64.StdEncoding.DecodeString(value)
	if f.Xattrs == nil {
		f.Xattrs = map[string]string{}
	}
	f.Xattrs[name] = string(b)
	return err
}
