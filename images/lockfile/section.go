package lockfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/recipe"
)

// The shapes of the file. What has a digest is written with one field for it, whatever its kind.
type (
	document struct {
		Schema  int                `yaml:"schema"`
		Targets map[string]section `yaml:"targets"`
	}
	section struct {
		System   string                 `yaml:"system"`
		Driver   string                 `yaml:"driver"`
		Arch     string                 `yaml:"arch"`
		Digest   string                 `yaml:"digest,omitempty"` // of the section as it is written without it
		Kernels  []string               `yaml:"kernels,omitempty"`
		Asked    request                `yaml:"asked"`
		Base     recipe.Base            `yaml:"base"`
		Packages []pinned               `yaml:"packages"`
		Compiler []pinned               `yaml:"compiler,omitempty"`
		Headers  map[string][]pinned    `yaml:"headers,omitempty"`
		Toolkits map[string]recipe.Base `yaml:"kernel-images,omitempty"`
		Drivers  []pinned               `yaml:"driver-packages,omitempty"`

		Companions []pinned `yaml:"companion-packages,omitempty"`
	}
	request struct {
		recipe.Request `yaml:",inline"`
		Archive        *archive `yaml:"archive,omitempty"`
	}
	archive struct {
		Digest string `yaml:"digest"`
		Size   int64  `yaml:"size,omitempty"`
		URL    string `yaml:"url"`
	}
	pinned struct {
		Name     string   `yaml:"name"`
		Version  string   `yaml:"version"`
		Arch     string   `yaml:"arch"`
		Replaces string   `yaml:"replaces,omitempty"`
		Size     int64    `yaml:"size"`
		Digest   string   `yaml:"digest"`
		URL      string   `yaml:"url"`
		Keys     []string `yaml:"keys,omitempty"`
	}
)

func sectionOf(t *Target) section {
	s := section{
		System: t.System, Driver: t.Driver, Arch: t.Arch, Kernels: t.Kernels, Asked: request{Request: t.Asked}, Base: t.Pins.Base,
		Packages: pin(t.Pins.Packages), Compiler: pin(t.Pins.Compiler), Headers: map[string][]pinned{}, Toolkits: t.Pins.Toolkits, Drivers: pin(t.Pins.Driver),
		Companions: pin(t.Pins.Companions),
	}
	if a := t.Asked.Archive; a != nil {
		s.Asked.Archive = &archive{Digest: "sha256:" + a.SHA256, Size: a.Size, URL: a.URL}
	}
	for release, list := range t.Pins.Headers {
		s.Headers[release] = pin(list)
	}
	return s
}

// sum is the digest of a section as it is written alone.
func (s section) sum(name string) (string, error) {
	s.Digest = ""
	text, err := encode(map[string]section{name: s})
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

func pin(list []distros.Package) []pinned {
	out := make([]pinned, len(list))
	for i, p := range list {
		out[i] = pinned{p.Name, p.Version, p.Arch, p.Replaces, p.Size, digest(p), p.URL, p.Keys}
	}
	return out
}

func digest(p distros.Package) string {
	if p.SHA256 != "" {
		return "sha256:" + p.SHA256
	}
	return "sha512:" + p.SHA512
}

var digestShape = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// target checks a section: what would be unusable later is an error now.
func (s section) target(key string) (*Target, error) {
	tag, ok := strings.CutSuffix(key, "/"+s.Arch)
	if !ok || tag == "" || s.System == "" || s.Driver == "" || s.Arch == "" {
		return nil, errors.New("its name is not TAG/ARCH of its system, driver and arch")
	}
	for what, image := range s.images() {
		if !strings.HasPrefix(image.Digest, "sha256:") || !digestShape.MatchString(image.Digest) {
			return nil, fmt.Errorf("%s: %.100q is no digest", what, image.Digest)
		}
	}
	t := &Target{Tag: tag, System: s.System, Driver: s.Driver, Arch: s.Arch, Kernels: s.Kernels, Asked: s.Asked.Request, Pins: recipe.Pins{Base: s.Base, Toolkits: s.Toolkits}}
	if a := s.Asked.Archive; a != nil {
		sum, ok := strings.CutPrefix(a.Digest, "sha256:")
		if !ok || !digestShape.MatchString(a.Digest) || a.Size < 0 {
			return nil, fmt.Errorf("archive: %.100q of %d bytes is no digest of a file", a.Digest, a.Size)
		}
		t.Asked.Archive = &fetch.File{URL: a.URL, SHA256: sum, Size: a.Size}
	}
	if len(s.Headers) > 0 {
		t.Pins.Headers = map[string][]distros.Package{}
	}
	var err error
	for release, list := range s.Headers {
		if t.Pins.Headers[release], err = packages(list); err != nil {
			return nil, err
		}
	}
	if t.Pins.Packages, err = packages(s.Packages); err != nil {
		return nil, err
	}
	if t.Pins.Compiler, err = packages(s.Compiler); err != nil {
		return nil, err
	}
	if t.Pins.Companions, err = packages(s.Companions); err != nil {
		return nil, err
	}
	if t.Pins.Driver, err = packages(s.Drivers); err != nil || s.Digest == "" {
		return t, err
	}
	if sum, err := sectionOf(t).sum(key); err != nil || sum != s.Digest {
		return nil, errors.Join(errors.New("it was changed after driver-build lock wrote it: take the file from version control again"), err)
	}
	return t, nil
}

// images are all images of a section, by what they are.
func (s section) images() map[string]recipe.Base {
	all := map[string]recipe.Base{"base": s.Base}
	for release, image := range s.Toolkits {
		all["image with kernel "+release] = image
	}
	return all
}

func packages(list []pinned) (out []distros.Package, err error) {
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
		if sum, ok := strings.CutPrefix(p.Digest, "sha256:"); ok {
			q.SHA256 = sum
		} else {
			q.SHA512 = strings.TrimPrefix(p.Digest, "sha512:")
		}
		out = append(out, q)
	}
	return out, nil
}
