package credentials

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/imagename"
)

// maxFile bounds a file of credentials, which people and programs edit, in bytes.
const maxFile = 1 << 20

// Place says where the credentials of a registry are kept.
type Place struct {
	File   string // the file of credentials
	Helper string // the program that keeps them instead: docker-credential-... ; "": the file, base64-encoded
}

func (p Place) String() string {
	if p.Helper != "" {
		return p.Helper + " (" + p.File + " names it)"
	}
	return p.File
}

// Store keeps user and password for a registry (host[:port]), where [NewKeychain] finds them first: in the
// file $REGISTRY_AUTH_FILE or else in Docker's config.json ($DOCKER_CONFIG or ~/.docker), or in the helper
// program that this file names for the registry. All else in the file stays. It gets mode 0600, and is
// replaced as a whole.
func Store(ctx context.Context, registry, user, password string) (Place, error) {
	fail := func(p Place, err error) (Place, error) {
		return p, fmt.Errorf("store the credentials of %s in %s: %w", registry, p, err)
	}
	if user == "" || password == "" || strings.Contains(user, ":") {
		return Place{}, fmt.Errorf("store the credentials of %s: user and password must not be empty, and a user has no colon", registry)
	}
	f, key, err := open(registry)
	if err != nil {
		return fail(f.place, err)
	}
	if f.place.Helper != "" {
		return f.place, runHelper(ctx, f.place, "store", helperEntry{ServerURL: key, Username: user, Secret: password})
	}
	entry := map[string]json.RawMessage{}
	if old, ok := f.auths[key]; ok {
		if err := json.Unmarshal(old, &entry); err != nil {
			return fail(f.place, fmt.Errorf("its entry for %s is malformed; nothing was changed", key))
		}
	}
	for _, secret := range []string{"username", "password", "identitytoken", "registrytoken"} {
		delete(entry, secret)
	}
	if entry["auth"], err = json.Marshal(base64.StdEncoding.EncodeToString([]byte(user + ":" + password))); err != nil {
		return fail(f.place, err)
	}
	if f.auths[key], err = json.Marshal(entry); err != nil {
		return fail(f.place, err)
	}
	if err := f.write(); err != nil {
		return fail(f.place, err)
	}
	return f.place, nil
}

// Erase removes what [Store] keeps for a registry. found is false if the file has nothing for it; a helper
// does not say.
func Erase(ctx context.Context, registry string) (place Place, found bool, err error) {
	f, key, err := open(registry)
	if err == nil && f.place.Helper != "" {
		return f.place, true, runHelper(ctx, f.place, "erase", key)
	}
	if err == nil {
		for _, name := range hosts(registry) {
			for k := range f.auths {
				if k == name || strings.Contains(k, "://") && credentials.ConvertToHostname(k) == name {
					delete(f.auths, k)
					found = true
				}
			}
		}
		if found {
			err = f.write()
		}
	}
	if err != nil {
		return f.place, false, fmt.Errorf("remove the credentials of %s from %s: %w", registry, f.place, err)
	}
	return f.place, found, nil
}

// file is a file of credentials that is being changed.
type file struct {
	place Place
	raw   []byte
	doc   map[string]json.RawMessage
	auths map[string]json.RawMessage
}

// open reads the file, and returns it with the key of a registry.
func open(registry string) (f file, key string, err error) {
	if err := imagename.CheckRegistry(registry); err != nil {
		return f, "", err
	}
	if f.place.File, err = loginFile(); err != nil {
		return f, "", err
	}
	f.doc, f.auths = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	f.raw, err = bounded.File(f.place.File, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f, "", fmt.Errorf("%w; nothing was changed", err)
	}
	var helpers map[string]string
	var helper string
	if len(f.raw) > 0 {
		err := json.Unmarshal(f.raw, &f.doc)
		for field, to := range map[string]any{"auths": &f.auths, "credHelpers": &helpers, "credsStore": &helper} {
			if text, ok := f.doc[field]; ok && err == nil {
				err = json.Unmarshal(text, to)
			}
		}
		if err != nil || f.doc == nil { // without the text of the error, which may quote the content
			return f, "", errors.New("it is not a file of credentials as docker login and podman login write it; nothing was changed")
		}
	}
	if f.auths == nil {
		f.auths = map[string]json.RawMessage{}
	}
	names := hosts(registry)
	for _, n := range names {
		if h := helpers[n]; h != "" {
			helper = h
			break
		}
	}
	if helper != "" {
		if strings.ContainsRune(helper, filepath.Separator) {
			return f, "", fmt.Errorf("it names the helper program %q, which is no name of a program", helper)
		}
		f.place.Helper = "docker-credential-" + helper
	}
	return f, names[0], nil
}

// loginFile returns the file that Store changes.
func loginFile() (string, error) {
	if file := os.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		return file, nil
	}
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, config.ConfigFileName), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: name a file by $REGISTRY_AUTH_FILE, or a folder by $DOCKER_CONFIG", err)
	}
	return filepath.Join(home, ".docker", config.ConfigFileName), nil
}

// hosts returns the names of a registry in files of credentials, the one that docker writes first.
func hosts(registry string) []string {
	if registry == "docker.io" || registry == name.DefaultRegistry {
		return []string{authn.DefaultAuthKey, "docker.io", name.DefaultRegistry}
	}
	return []string{registry}
}

// write replaces the file. A link stays a link.
func (f *file) write() error {
	target := f.place.File
	if linked, err := filepath.EvalSymlinks(target); err == nil {
		target = linked
	}
	if now, err := bounded.File(target, maxFile); err == nil && string(now) != string(f.raw) {
		return errors.New("another program changed it meanwhile: try again")
	}
	var err error
	if f.doc["auths"], err = json.Marshal(f.auths); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(f.doc, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return atomicwriter.WriteFile(target, append(raw, '\n'), 0o600)
}
