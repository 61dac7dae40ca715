package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Bounds on a file: a thousand images of two hundred packages each.
const (
	MaxSize  = 64 << 20 // in bytes
	maxDepth = 12
)

// conflicts reports whether the file has conflict marks of git. No line that Encode writes begins with them.
func conflicts(data []byte) bool {
	for _, mark := range []string{"<<<<<<<", "=======", ">>>>>>>"} {
		if bytes.HasPrefix(data, []byte(mark)) || bytes.Contains(data, []byte("\n"+mark)) {
			return true
		}
	}
	return false
}

var schemaLine = regexp.MustCompile(`(?m)^schema:\s*([0-9]{1,9})\s*$`)

// Parse reads a file; name is for messages. It checks everything: a value that would be unusable later is
// ErrFormat now. Sections that want does not name are passed over, unread; nil wants all.
func Parse(name string, data []byte, want func(name string) bool) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		return nil, fmt.Errorf("%s: %w: %w; driver-build lock --update writes it anew", name, ErrFormat, err)
	}
	if conflicts(data) {
		return nil, fmt.Errorf("%s: %w: it holds the marks of a merge with conflicts: take one side and run driver-build lock", name, ErrFormat)
	}
	if m := schemaLine.FindSubmatch(data); m != nil { // before its fields, which may be others
		if n, err := strconv.Atoi(string(m[1])); err == nil && n > Schema {
			return nil, fmt.Errorf("%s: %w: its schema is %d, this program knows %d: use the driver-build that wrote it", name, ErrLater, n, Schema)
		}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail(errors.New("the file is empty"))
	}
	if len(data) > MaxSize {
		return fail(fmt.Errorf("it is larger than %d bytes", MaxSize))
	}
	if want != nil {
		data = narrow(data, want)
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields(), yaml.WithUniqueKeys(), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthValue(maxDepth), loaderlimits.AliasValue(0))))
	if err != nil {
		return fail(err)
	}
	var doc document
	if err := loader.Load(&doc); err != nil {
		return fail(err)
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return fail(errors.New("there is more than one document in it"))
	}
	if doc.Schema != Schema {
		return fail(fmt.Errorf("its schema is %d, this program knows %d", doc.Schema, Schema))
	}
	l := &Lock{Targets: map[string]*Target{}}
	for _, key := range slices.Sorted(maps.Keys(doc.Targets)) {
		t, err := doc.Targets[key].target(key)
		if err != nil {
			return fail(fmt.Errorf("%.100q: %w", key, err))
		}
		l.Targets[key] = t
		l.Old = l.Old || doc.Targets[key].Digest == ""
	}
	return l, nil
}
