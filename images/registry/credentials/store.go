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
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/imagename"
)

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
func Store(ctx context.Context, registry, user, password string) (p Place, err error) {
	if user == "" || password == "" || strings.Contains(user, ":") {
		return p, fmt.Errorf("store the credentials of %s: user and password must not be empty, and a user has no colon", registry)
	}
	f, p, key, err := open(registry)
	if err == nil && p.Helper != "" {
		var raw []byte
		if raw, err = json.Marshal(helperEntry{ServerURL: key, Username: user, Secret: password}); err == nil { //nolint:gosec // for the helper's stdin
			_, err = runHelper(ctx, p, "store", string(raw), password)
		}
	} else if err == nil {
		err = f.store(key, user, password)
	}
	if err != nil {
		err = fmt.Errorf("store the credentials of %s in %s: %w; nothing was changed", registry, p, err)
	}
	return p, err
}

// store replaces what an entry says of users and passwords.
func (f *file) store(key, user, password string) (err error) {
	entry := map[string]json.RawMessage{}
	if old, ok := f.auths[key]; ok && json.Unmarshal(old, &entry) != nil {
		return fmt.Errorf("its entry for %s is malformed", key)
	}
	for _, secret := range []string{"username", "password", "identitytoken", "registrytoken"} {
		delete(entry, secret)
	}
	if entry["auth"], err = json.Marshal(base64.StdEncoding.EncodeToString([]byte(user + ":" + password))); err == nil {
		f.auths[key], err = json.Marshal(entry)
	}
	return errors.Join(err, f.write())
}

// Erase removes what [Store] keeps for a registry. found is false if the file has nothing for it; a helper
// does not say.
func Erase(ctx context.Context, registry string) (p Place, found bool, err error) {
	f, p, key, err := open(registry)
	if err == nil && p.Helper != "" {
		_, err = runHelper(ctx, p, "erase", key, "")
		found = err == nil
	} else if err == nil {
		names := namesOf(registry)
		for k := range f.auths {
			if slices.Contains(names, k) || isOld(k, names) {
				delete(f.auths, k)
				found = true
			}
		}
		if found {
			err = f.write()
		}
	}
	if err != nil {
		err = fmt.Errorf("remove the credentials of %s from %s: %w", registry, p, err)
	}
	return p, found, err
}

// open reads the file that keeps the credentials of a registry, or names the helper that does; key is the
// registry's name there.
func open(registry string) (f *file, p Place, key string, err error) {
	if err := imagename.CheckRegistry(registry); err != nil {
		return nil, p, "", err
	}
	all := files()
	if len(all) == 0 {
		return nil, p, "", errors.New("there is no home folder: name a file by $REGISTRY_AUTH_FILE, or a folder by $DOCKER_CONFIG")
	}
	p.File = all[0]
	if f, err = readFile(p.File); err == nil {
		p.Helper, key, err = f.helperOf(namesOf(registry))
	}
	return f, p, key, err
}

// write replaces the file. A link stays a link.
func (f *file) write() (err error) {
	target := f.path
	if linked, err := filepath.EvalSymlinks(target); err == nil {
		target = linked
	}
	if now, err := bounded.File(target, maxFile); err == nil && string(now) != string(f.raw) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(errors.New("another program changed it meanwhile: try again"), err)
	}
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
