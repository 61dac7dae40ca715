package lockfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/matrix"
)

const header = `# What the images of the matrix are made from. driver-build lock writes this file: run it again rather than edit it, also
# after a merge with conflicts.
`

// Encode gives the bytes of the file.
func (l *Lock) Encode() []byte {
	w := &writer{}
	w.b.WriteString(header)
	fmt.Fprintf(&w.b, "schema: %d\n", Schema)
	if len(l.Targets) == 0 {
		w.b.WriteString("targets: {}\n")
		return w.b.Bytes()
	}
	w.b.WriteString("targets:\n")
	for _, name := range l.Names() {
		w.target(l.Targets[name])
	}
	return w.b.Bytes()
}

// writer is a YAML writer for the few shapes of the file. The library's would choose its own quotes and line breaks, and another
// version of it others.
type writer struct{ b bytes.Buffer }

func (w *writer) target(t *Target) {
	w.line(2, text(t.Name())+":")
	w.field(4, "system", t.System)
	w.field(4, "driver", t.Driver)
	w.field(4, "arch", t.Arch)
	w.list(4, "kernels", t.Kernels)
	q := t.Asked
	w.line(4, "asked:")
	w.field(6, "base", q.Base)
	w.field(6, "mirror", q.Mirror)
	w.list(6, "components", q.Components)
	w.repositories(6, q.Repositories)
	if q.OnlyThese {
		w.line(6, "only-these-repositories: true")
	}
	w.list(6, "image", q.Image)
	w.list(6, "compiler", q.Compiler)
	if len(q.Headers) > 0 {
		w.line(6, "headers:")
		for _, release := range slices.Sorted(maps.Keys(q.Headers)) {
			w.list(8, release, q.Headers[release])
		}
	}
	w.list(6, "driver", q.Driver)
	if a := q.Archive; a != nil {
		w.line(6, "archive:")
		w.field(8, "digest", "sha256:"+a.SHA256)
		w.number(8, "size", a.Size)
		w.field(8, "url", a.URL)
	}
	w.line(4, "base:")
	w.field(6, "name", t.Pins.Base.Name)
	w.field(6, "digest", t.Pins.Base.Digest)
	w.packages(4, "packages", t.Pins.Packages)
	w.packages(4, "compiler", t.Pins.Compiler)
	if len(t.Pins.Headers) > 0 {
		w.line(4, "headers:")
		for _, release := range slices.Sorted(maps.Keys(t.Pins.Headers)) {
			w.packages(6, release, t.Pins.Headers[release])
		}
	}
	w.packages(4, "driver-packages", t.Pins.Driver)
}

func (w *writer) line(indent int, s string) {
	w.b.WriteString(strings.Repeat(" ", indent))
	w.b.WriteString(s)
	w.b.WriteByte('\n')
}

// field leaves out what is empty.
func (w *writer) field(indent int, key, value string) {
	if value != "" {
		w.line(indent, key+": "+text(value))
	}
}

func (w *writer) number(indent int, key string, value int64) {
	if value != 0 {
		w.line(indent, key+": "+strconv.FormatInt(value, 10))
	}
}

func (w *writer) list(indent int, key string, values []string) {
	if len(values) == 0 {
		return
	}
	w.line(indent, text(key)+":")
	for _, v := range values {
		w.line(indent, "- "+text(v))
	}
}

func (w *writer) repositories(indent int, all []matrix.Repository) {
	if len(all) == 0 {
		return
	}
	w.line(indent, "repositories:")
	for _, r := range all {
		if len(r.BaseURLs) > 0 {
			w.line(indent, "- {baseurl: "+flow(r.BaseURLs)+"}")
			continue
		}
		w.line(indent, fmt.Sprintf("- {uris: %s, suites: %s, components: %s}", flow(r.URIs), flow(r.Suites), flow(r.Components)))
	}
}

// packages writes one package a line, so that a new version is one line of a diff. An empty list is written too: the headers of a
// kernel may need nothing beyond the compiler.
func (w *writer) packages(indent int, key string, all []distros.Package) {
	if len(all) == 0 {
		if key != "compiler" && key != "driver-packages" {
			w.line(indent, text(key)+": []")
		}
		return
	}
	w.line(indent, text(key)+":")
	for _, p := range all {
		fields := []string{"name: " + text(p.Name), "version: " + text(p.Version), "arch: " + text(p.Arch)}
		if p.Replaces != "" {
			fields = append(fields, "replaces: "+text(p.Replaces))
		}
		fields = append(fields, "size: "+strconv.FormatInt(p.Size, 10), "digest: "+digest(p), "url: "+text(p.URL))
		if len(p.Keys) > 0 {
			fields = append(fields, "keys: "+flow(p.Keys))
		}
		w.line(indent, "- {"+strings.Join(fields, ", ")+"}")
	}
}

func digest(p distros.Package) string {
	if p.SHA256 != "" {
		return "sha256:" + p.SHA256
	}
	return "sha512:" + p.SHA512
}

func flow(values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = text(v)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// plain are words that mean themselves in YAML without quotes: they begin with a letter, so that none is a number.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/+~@%=-]*(?::[A-Za-z0-9._/+~@%=-]+)*$`)

// reserved are words that are no text in some version of YAML.
var reserved = []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}

// text is a scalar, in quotes unless it surely needs none.
func text(s string) string {
	if plain.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return strconv.Quote(s) // not reached: a string can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
