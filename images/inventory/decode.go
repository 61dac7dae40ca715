package inventory

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/strictjson"
)

// errFormat says that bytes are no list of files.
var errFormat = errors.New("not a valid list of an image's files")

// maxBytes bounds a list. The list of a large image, 40,000 files, has 8 MB.
const maxBytes = 128 << 20

var (
	sha256Shape  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	specialShape = regexp.MustCompile(`^(fifo|(char|block) device=native,[0-9]+,[0-9]+)$`)
)

// Read returns the list in an image, of at most 128 MiB, and its digest as recipe.LabelFiles has
// it. The digest is there also if the list is not valid. The error wraps fs.ErrNotExist without
// one.
func Read(tree *rootfs.Tree) (l List, digest string, err error) {
	e, err := tree.Stat(recipe.FileList)
	if err != nil {
		return l, "", err
	}
	r, err := e.Open()
	if err != nil {
		return l, "", fmt.Errorf("read %s: %w", recipe.FileList, err)
	}
	if r.Size() > maxBytes {
		return l, "", fmt.Errorf("%w: larger than %d bytes", errFormat, maxBytes)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return l, "", err
	}
	l, err = decode(data)
	return l, oci.HashOf(data).String(), err
}

// decode reads what Encode wrote, and nothing else: what would be written in another way is
// refused.
func decode(data []byte) (l List, err error) {
	rest, ok := bytes.CutPrefix(data, []byte(header))
	if !ok {
		return l, fmt.Errorf("%w: it does not begin with %q", errFormat, strings.TrimSpace(header))
	}
	if line, _, _ := bytes.Cut(rest, []byte("\n")); bytes.HasPrefix(line, []byte(configured)) {
		l.Config, err = strictjson.Decode[*v1.ConfigFile](line[len(configured):])
		if err != nil || l.Config == nil {
			return l, fmt.Errorf("%w: line 2: it is no configuration: %w", errFormat, err)
		}
		rest = rest[min(len(line)+1, len(rest)):]
	}
	files := make([]File, 0, bytes.Count(rest, []byte("\n")))
	for line := range bytes.Lines(rest) {
		text := strings.TrimSuffix(string(line), "\n")
		f, ok := decodeLine(text)
		if n := len(files); !ok || string(f.appendLine(nil)) != text ||
			n > 0 && files[n-1].Path >= f.Path {
			return l, fmt.Errorf(
				"%w: file %d: %.80q is not how such a list is written, or not in its order",
				errFormat,
				n+1,
				text,
			)
		}
		files = append(files, f)
	}
	l.Files = files
	return l, nil
}

// decodeLine takes what it can read of a line. decode finds the rest missing, because the line
// would be another one then.
func decodeLine(line string) (f File, ok bool) {
	name, words, _ := strings.Cut(line, " ")
	f.Path = unescape(strings.TrimPrefix(name, "./"))
	if p, err := rootfs.Clean(f.Path); err != nil || p != f.Path || p == "." {
		return f, false
	}
	values := map[string]string{}
	for word := range strings.SplitSeq(words, " ") {
		key, value, _ := strings.Cut(word, "=")
		attribute, is := strings.CutPrefix(key, "xattr.")
		if !is {
			values[key] = value
			continue
		}
		text, _ := base64.StdEncoding.DecodeString(value)
		if f.Xattrs == nil {
			f.Xattrs = map[string]string{}
		}
		f.Xattrs[unescape(attribute)] = string(text)
	}
	mode, _ := strconv.ParseUint(values["mode"], 8, 12)
	f.Mode = rootfs.FileMode(int64(mode)) //nolint:gosec // 12 bits
	f.UID, _ = strconv.Atoi(values["uid"])
	f.GID, _ = strconv.Atoi(values["gid"])
	switch kind := values["type"]; kind {
	case "file":
		size, err := strconv.ParseUint(values["size"], 10, 63)
		f.Size = int64(size)
		f.SHA256 = values["sha256digest"] //nolint:gosec // 63 bits
		return f, err == nil && sha256Shape.MatchString(f.SHA256)
	case "dir":
		f.Kind = rootfs.Dir
		return f, true
	case "link":
		f.Kind, f.Target = rootfs.Link, unescape(values["link"])
		return f, f.Target != ""
	default:
		f.Kind = rootfs.Special
		f.Target = kind
		if device, has := values["device"]; has {
			f.Target += " device=" + device
		}
		return f, specialShape.MatchString(f.Target)
	}
}

// unescape is the inverse of appendEscaped; "" of what that did not write.
func unescape(s string) string {
	var b []byte
	for s != "" {
		c, _, rest, err := strconv.UnquoteChar(s, 0)
		if err != nil {
			return ""
		}
		b = append(b, byte(c))
		s = rest //nolint:gosec // appendEscaped writes no other runes
	}
	return string(b)
}
