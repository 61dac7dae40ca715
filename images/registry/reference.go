package registry

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
	"github.com/driver-container/driver-container/images/registry/transport"
)

// reference is an image in a registry, as users write it: [host/]path[:tag][@digest].
type reference struct {
	text   string // as written
	repo   name.Repository
	tag    string  // "" when there is only a digest
	digest v1.Hash // zero when there is only a tag
}

func parseReference(text string, insecure bool) (reference, error) {
	r := reference{text: text}
	if err := imagename.CheckImage(text); err != nil {
		return r, err
	}
	var opts []name.Option
	if insecure {
		opts = append(opts, name.Insecure)
	}
	before, digest, pinned := strings.Cut(text, "@")
	if pinned {
		d, err := name.NewDigest(text, opts...)
		if err != nil {
			return r, fmt.Errorf("%q is no image reference: %w", text, err)
		}
		if r.digest, err = v1.NewHash(digest); err != nil || r.digest.Algorithm != "sha256" {
			return r, fmt.Errorf("%q is no image reference: its digest must be sha256 and 64 hex digits", text)
		}
		r.repo = d.Context()
		if !strings.Contains(before[strings.LastIndex(before, "/")+1:], ":") {
			return r, nil
		}
	}
	t, err := name.NewTag(before, opts...)
	if err != nil {
		return r, fmt.Errorf("%q is no image reference: %w", text, err)
	}
	r.repo, r.tag = t.Context(), t.TagStr()
	return r, nil
}

// CheckSource checks the name of an image that Base or Open reads, without network: a reference in a
// registry must be one, an image on this machine must be there and look like one.
func CheckSource(ref string) error {
	if local, ok := oci.ParseLocal(ref); ok {
		return local.Check()
	}
	return imagename.CheckImage(ref)
}

// canonical returns the full repository:tag, with the name that people use for Docker's registry.
func (r reference) canonical() string {
	s := r.repo.Name()
	if rest, ok := strings.CutPrefix(s, name.DefaultRegistry+"/"); ok {
		s = "docker.io/" + rest
	}
	if r.tag != "" {
		s += ":" + r.tag
	}
	return s
}

// mirror is a registry, or a folder of one, that has the content of another registry.
type mirror struct {
	registry name.Registry
	prefix   string
	plain    bool
}

// CheckMirror checks one mirror of a registry, as Options.Mirrors has it.
func CheckMirror(host, mirror string) error {
	_, err := parseMirrors(map[string][]string{host: {mirror}})
	return err
}

func parseMirrors(all map[string][]string) (map[string][]mirror, error) {
	out := map[string][]mirror{}
	for host, list := range all {
		if err := imagename.CheckRegistry(host); err != nil {
			return nil, fmt.Errorf("mirrors of %q: %w", host, err)
		}
		reg, err := name.NewRegistry(host)
		if err != nil {
			return nil, fmt.Errorf("mirrors of %q: %w", host, err)
		}
		for _, text := range list {
			m, err := parseMirror(text)
			if err != nil {
				return nil, fmt.Errorf("mirror %q of %s: %w", text, host, err)
			}
			out[reg.RegistryStr()] = append(out[reg.RegistryStr()], m)
		}
	}
	return out, nil
}

func parseMirror(text string) (mirror, error) {
	rest, plain := strings.CutPrefix(text, "http://")
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "https://"), "/")
	host, prefix, _ := strings.Cut(rest, "/")
	if err := imagename.CheckRegistry(host); err != nil {
		return mirror{}, fmt.Errorf("want host[:port][/prefix]: %w", err)
	}
	opts := []name.Option{name.StrictValidation}
	if plain {
		opts = append(opts, name.Insecure)
	}
	reg, err := name.NewRegistry(host, opts...)
	if err != nil {
		return mirror{}, fmt.Errorf("want host[:port][/prefix]: %w", err)
	}
	if prefix != "" {
		if err := imagename.CheckRepository(host + "/" + prefix); err != nil {
			return mirror{}, fmt.Errorf("want host[:port][/prefix]: %w", err)
		}
	}
	return mirror{registry: reg, prefix: prefix, plain: plain}, nil
}

// endpoints returns the transport.Endpoints of a repository: its mirrors in order, then its own registry.
func (c *Client) endpoints(repo name.Repository) []transport.Endpoint {
	var out []transport.Endpoint
	for _, m := range c.mirrors[repo.RegistryStr()] {
		reg := m.registry
		if c.opts.Insecure {
			if r, err := name.NewRegistry(reg.RegistryStr(), name.Insecure); err == nil {
				reg = r
			}
		}
		out = append(out, transport.Endpoint{Repo: reg.Repo(m.prefix, repo.RepositoryStr()), Plain: m.plain})
	}
	return append(out, transport.Endpoint{Repo: repo})
}
