package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// reference is an image in a registry, as users write it: [host/]path[:tag][@digest].
type reference struct {
	text   string // as written
	repo   name.Repository
	tag    string  // "" when there is only a digest
	digest v1.Hash // zero when there is only a tag
}

func parseReference(text string) (reference, error) {
	repo, tag, digest, err := imagename.Parse(text)
	return reference{text, repo, tag, digest}, err
}

// CheckSource checks the name of an image that Open reads, without network: a reference in a
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
		reg, err := name.NewRegistry(host)
		err = errors.Join(imagename.CheckRegistry(host), err)
		if err != nil {
			return nil, fmt.Errorf("mirrors of %q: %w", host, err)
		}
		for _, text := range list {
			m, err := parseMirror(text)
			if err != nil {
				return nil, fmt.Errorf(
					"mirror %q of %s: want host[:port][/prefix]: %w",
					text,
					host,
					err,
				)
			}
			out[reg.RegistryStr()] = append(out[reg.RegistryStr()], m)
		}
	}
	return out, nil
}

func parseMirror(text string) (m mirror, err error) {
	rest, plain := strings.CutPrefix(text, "http://")
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "https://"), "/")
	host, prefix, nested := strings.Cut(rest, "/")
	err = imagename.CheckRegistry(host)
	if err != nil {
		return m, err
	}
	if nested {
		err = imagename.CheckRepository(rest)
		if err != nil {
			return m, err
		}
	}
	reg, err := name.NewRegistry(host, name.StrictValidation)
	return mirror{registry: reg, prefix: prefix, plain: plain}, err
}

// endpoints returns the endpoints of a repository: its mirrors in order, then its own registry. A
// mirror gets only two attempts, because there is another one to ask.
func (c *Client) endpoints(repo name.Repository) []endpoint {
	var out []endpoint
	for _, m := range c.mirrors[repo.RegistryStr()] {
		out = append(
			out,
			endpoint{
				m.registry.Repo(m.prefix, repo.RepositoryStr()),
				m.plain,
				min(c.opts.Attempts, 2),
			},
		)
	}
	return append(out, endpoint{repo, false, c.opts.Attempts})
}
