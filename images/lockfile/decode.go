package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// Bounds on a file: thousands of images of a hundred packages each.
const (
	maxSize  = 256 << 20
	maxDepth = 12
)

// The shapes of the file, as encode.go writes them.
type (
	document struct {
		Schema  int                `yaml:"schema"`
		Targets map[string]section `yaml:"targets"`
	}
	section struct {
		System  string              `yaml:"system"`
		Driver  string              `yaml:"driver"`
		Arch    string              `yaml:"arch"`
		Kernels []string            `yaml:"kernels"`
		Asked   request             `yaml:"asked"`
		Base    base                `yaml:"base"`
		Pkgs    []pinned            `yaml:"packages"`
		Comp    []pinned            `yaml:"compiler"`
		Headers map[string][]pinned `yaml:"headers"`
		Drv     []pinned            `yaml:"driver-packages"`
	}
	request struct {
		Base         string              `yaml:"base"`
		Mirror       string              `yaml:"mirror"`
		Components   []string            `yaml:"components"`
		Repositories []repository        `yaml:"repositories"`
		OnlyThese    bool                `yaml:"only-these-repositories"`
		Image        []string            `yaml:"image"`
		Compiler     []string            `yaml:"compiler"`
		Headers      map[string][]string `yaml:"headers"`
		Driver       []string            `yaml:"driver"`
		Archive      *archive            `yaml:"archive"`
	}
	repository struct {
		URIs       []string `yaml:"uris"`
		Suites     []string `yaml:"suites"`
		Components []string `yaml:"components"`
		BaseURLs   []string `yaml:"baseurl"`
	}
	archive struct {
		Digest string `yaml:"digest"`
		Size   int64  `yaml:"size"`
		URL    string `yaml:"url"`
	}
	base struct {
		Name   string `yaml:"name"`
		Digest string `yaml:"digest"`
	}
	pinned struct {
		Name     string   `yaml:"name"`
		Version  string   `yaml:"version"`
		Arch     string   `yaml:"arch"`
		Replaces string   `yaml:"replaces"`
		Size     int64    `yaml:"size"`
		Digest   string   `yaml:"digest"`
		URL      string   `yaml:"url"`
		Keys     []string `yaml:"keys"`
	}
)

var digestShape = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// conflicts says whether git could not merge the file. No line of ours begins with these.
func conflicts(data []byte) bool {
	for _, mark := range []string{"<<<<<<<", "=======", ">>>>>>>"} {
		if bytes.HasPrefix(data, []byte(mark)) || bytes.Contains(data, []byte("\n"+mark)) {
			return true
		}
	}
	return false
}

// Parse reads a file; name is for messages. It takes nothing on trust: what would be unusable later is ErrFormat now. Sections
// that want does not name are passed over, unread; nil wants all.
func Parse(name string, data []byte, want func(name string) bool) (*Lock, error) {
	fail := func(err error) (*Lock, error) {
		return nil, fmt.Errorf("%s: %w: %w; driver-build lock --update writes it anew", name, ErrFormat, err)
	}
	if conflicts(data) {
		return nil, fmt.Errorf("%s: %w: it holds the marks of a merge with conflicts: take one side and run driver-build lock", name, ErrFormat)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail(errors.New("the file is empty"))
	}
	if len(data) > maxSize {
		return fail(fmt.Errorf("it is larger than %d bytes", maxSize))
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
	}
	return l, nil
}

func (s section) target(key string) (*Target, error) {
	tag, ok := strings.CutSuffix(key, "/"+s.Arch)
	if !ok || tag == "" || s.System == "" || s.Driver == "" || s.Arch == "" {
		return nil, errors.New("its name is not TAG/ARCH of its system, driver and arch")
	}
	if !strings.HasPrefix(s.Base.Digest, "sha256:") || !digestShape.MatchString(s.Base.Digest) {
		return nil, fmt.Errorf("base: %.100q is no digest", s.Base.Digest)
	}
	t := &Target{Tag: tag, System: s.System, Driver: s.Driver, Arch: s.Arch, Kernels: s.Kernels}
	t.Pins.Base = recipe.Base{Name: s.Base.Name, Digest: s.Base.Digest}
	var err error
	if t.Asked, err = s.Asked.request(); err != nil {
		return nil, err
	}
	if len(s.Headers) > 0 {
		t.Pins.Headers = map[string][]distros.Package{}
	}
	for release, list := range s.Headers {
		if t.Pins.Headers[release], err = packages(list); err != nil {
			return nil, err
		}
	}
	if t.Pins.Packages, err = packages(s.Pkgs); err != nil {
		return nil, err
	}
	if t.Pins.Compiler, err = packages(s.Comp); err != nil {
		return nil, err
	}
	t.Pins.Driver, err = packages(s.Drv)
	return t, err
}

func (q request) request() (recipe.Request, error) {
	out := recipe.Request{
		Base: q.Base, Mirror: q.Mirror, Components: q.Components, OnlyThese: q.OnlyThese,
		Wants: recipe.Wants{Image: q.Image, Compiler: q.Compiler, Headers: q.Headers, Driver: q.Driver},
	}
	for _, r := range q.Repositories {
		out.Repositories = append(out.Repositories, matrix.Repository{URIs: r.URIs, Suites: r.Suites, Components: r.Components, BaseURLs: r.BaseURLs})
	}
	if a := q.Archive; a != nil {
		sum, ok := strings.CutPrefix(a.Digest, "sha256:")
		if !ok || !digestShape.MatchString(a.Digest) || a.Size < 0 {
			return out, fmt.Errorf("archive: %.100q of %d bytes is no digest of a file", a.Digest, a.Size)
		}
		out.Archive = &fetch.File{URL: a.URL, SHA256: sum, Size: a.Size}
	}
	return out, nil
}

func packages(list []pinned) ([]distros.Package, error) {
	var out []distros.Package
	for _, p := range list {
		u, err := url.Parse(p.URL)
		switch {
		case p.Name == "" || p.Version == "" || p.Arch == "":
			return nil, fmt.Errorf("package %.100q: name, version and arch must be there", p.Name)
		case !digestShape.MatchString(p.Digest) || p.Size < 0:
			return nil, fmt.Errorf("package %.100q: %.150q of %d bytes is no digest of a file", p.Name, p.Digest, p.Size)
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return nil, fmt.Errorf("package %.100q: its url is no address with http or https", p.Name)
		}
		q := distros.Package{Name: p.Name, Version: p.Version, Arch: p.Arch, URL: p.URL, Size: p.Size, Replaces: p.Replaces, Keys: p.Keys}
		kind, sum, _ := strings.Cut(p.Digest, ":")
		if kind == "sha256" {
			q.SHA256 = sum
		} else {
			q.SHA512 = sum
		}
		out = append(out, q)
	}
	return out, nil
}
