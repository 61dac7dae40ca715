// Package credentials reads and writes the credentials of registries where docker login and podman login keep
// them: files in the format of Docker's config.json, and helper programs that such a file names.
//
// It does not know registries' protocol: package registry sends the credentials.
package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/distros/bounded"
)

// maxFile bounds a file of credentials, which people and programs edit, in bytes.
const maxFile = 1 << 20

// files returns the files of credentials in the order in which they are asked: $REGISTRY_AUTH_FILE, because the
// user named that file; Docker's configuration ($DOCKER_CONFIG or ~/.docker); Podman's auth.json in
// $XDG_RUNTIME_DIR/containers and in $XDG_CONFIG_HOME/containers. The first one is that of Store.
func files() (all []string) {
	add := func(dir string, elem ...string) {
		if dir != "" {
			all = append(all, filepath.Join(append([]string{dir}, elem...)...))
		}
	}
	add(os.Getenv("REGISTRY_AUTH_FILE"))
	home, err := os.UserHomeDir()
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		add(dir, "config.json")
	} else if err == nil {
		add(home, ".docker", "config.json")
	}
	add(os.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json")
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, "containers", "auth.json")
	} else if err == nil {
		add(home, ".config", "containers", "auth.json")
	}
	return all
}

// file is a file in the format of containers-auth.json(5), which is also that of Docker's config.json.
type file struct {
	path  string
	raw   []byte
	doc   map[string]json.RawMessage // everything in it
	auths map[string]json.RawMessage // by the name of a registry, or of a namespace (host/team) as Podman writes it

	helpers map[string]string // by the name of a registry
	helper  string            // for all others
}

// readFile reads a file; one that does not exist has no credentials. Errors do not repeat what is in it.
func readFile(path string) (f *file, err error) {
	f = &file{path: path, doc: map[string]json.RawMessage{}, auths: map[string]json.RawMessage{}}
	if f.raw, err = bounded.File(path, maxFile); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return f, err
	}
	if len(f.raw) == 0 {
		return f, nil
	}
	err = json.Unmarshal(f.raw, &f.doc)
	for field, to := range map[string]any{"auths": &f.auths, "credHelpers": &f.helpers, "credsStore": &f.helper} {
		if text, ok := f.doc[field]; ok && err == nil {
			err = json.Unmarshal(text, to)
		}
	}
	if err != nil || f.doc == nil {
		return f, fmt.Errorf("%s is not a file of credentials as docker login and podman login write it", path)
	}
	if f.auths == nil { // null
		f.auths = map[string]json.RawMessage{}
	}
	return f, nil
}

// helperOf returns the program that keeps the credentials of a registry, and the name that it knows the registry
// by; program is "" if the file keeps them.
func (f *file) helperOf(names []string) (program, key string, err error) {
	program, key = f.helper, names[0]
	if i := slices.IndexFunc(names, func(n string) bool { return f.helpers[n] != "" }); i >= 0 {
		program, key = f.helpers[names[i]], names[i]
	}
	if strings.ContainsRune(program, filepath.Separator) {
		return "", "", fmt.Errorf("%s names the helper program %q, which is no name of a program", f.path, program)
	}
	if program != "" {
		program = "docker-credential-" + program
	}
	return program, key, nil
}

// namesOf returns the names of a registry in files of credentials, the one that docker writes first.
func namesOf(registry string) []string {
	if registry == "docker.io" || registry == name.DefaultRegistry {
		return []string{authn.DefaultAuthKey, "docker.io", name.DefaultRegistry}
	}
	return []string{registry}
}

// isOld says whether a key is that of a registry, written as a URL as old versions of docker wrote it.
func isOld(key string, names []string) bool {
	u, err := url.Parse(key)
	return err == nil && u.Host != "" && slices.Contains(names, u.Host)
}

type keychain []string

var _ authn.ContextKeychain = keychain{}

// NewKeychain returns a keychain of the files and helpers. It does not use authn.DefaultKeychain, which reads
// Podman's files only where Docker has no configuration at all, uses the credentials of host/team for the
// whole host, and starts helpers without a deadline and on the user's terminal.
func NewKeychain() authn.Keychain { return keychain(files()) }

// Resolve implements authn.Keychain.
func (k keychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain. A file that cannot be read is an error.
func (k keychain) ResolveContext(ctx context.Context, r authn.Resource) (authn.Authenticator, error) {
	for _, path := range k {
		f, err := readFile(path)
		if err != nil {
			return nil, err
		}
		got, err := f.lookUp(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("credentials of %s by way of %s: %w", r.RegistryStr(), path, err)
		}
		if got != (authn.AuthConfig{}) {
			return authn.FromConfig(got), nil
		}
	}
	return authn.Anonymous, nil
}

// lookUp returns the entry for the longest prefix of the repository's name; without one, the answer of the
// host's helper; without a helper, an entry that is written as a URL.
func (f *file) lookUp(ctx context.Context, r authn.Resource) (authn.AuthConfig, error) {
	names := namesOf(r.RegistryStr())
	rest, _ := strings.CutPrefix(r.String(), r.RegistryStr())
	for p := strings.Trim(rest, "/"); ; p = strings.TrimSuffix(path.Dir(p), ".") {
		for _, host := range names {
			if got, err := f.entry(strings.TrimSuffix(host+"/"+p, "/")); err != nil || got != (authn.AuthConfig{}) {
				return got, err
			}
		}
		if p == "" {
			break
		}
	}
	program, key, err := f.helperOf(names)
	if program != "" || err != nil {
		var got helperEntry
		if err == nil {
			got, err = runHelper(ctx, Place{f.path, program}, "get", key, "")
		}
		return got.config(), err
	}
	for key := range f.auths {
		if isOld(key, names) {
			return f.entry(key)
		}
	}
	return authn.AuthConfig{}, nil
}

func (f *file) entry(key string) (got authn.AuthConfig, err error) {
	if raw, ok := f.auths[key]; ok && json.Unmarshal(raw, &got) != nil {
		return authn.AuthConfig{}, fmt.Errorf("its entry for %s is malformed", key)
	}
	return got, nil
}
