package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/driver-container/driver-container/distros/textfile"
	"github.com/driver-container/driver-container/images/imagename"
	"github.com/driver-container/driver-container/images/oci"
)

// maxCredentials bounds a file of credentials, which people and programs edit, in bytes.
const maxCredentials = 1 << 20

// dockerHub is the key of Docker's registry in files of credentials.
const dockerHub = "https://index.docker.io/v1/"

// credentialFiles returns the files of credentials in the order in which they are asked: $REGISTRY_AUTH_FILE, because
// the user named that file; Docker's configuration ($DOCKER_CONFIG or ~/.docker); Podman's auth.json in
// $XDG_RUNTIME_DIR/containers and in $XDG_CONFIG_HOME/containers.
func credentialFiles() (all []string) {
	add := func(dir string, elem ...string) {
		if dir != "" {
			all = append(all, filepath.Join(append([]string{dir}, elem...)...))
		}
	}
	home, _ := os.UserHomeDir() // without one the variables count
	under := func(variable, folder string) string {
		if dir := os.Getenv(variable); dir != "" || home == "" {
			return dir
		}
		return filepath.Join(home, folder)
	}
	add(os.Getenv("REGISTRY_AUTH_FILE"))
	add(under("DOCKER_CONFIG", ".docker"), "config.json")
	add(os.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json")
	add(under("XDG_CONFIG_HOME", ".config"), "containers", "auth.json")
	return all
}

// credentialFile says who keeps which credentials, in the format of Docker's config.json, which is also that of
// containers-auth.json(5). What this program does not know of it stays. It is not oras-go's, which takes the credentials
// of host/team for the whole host, drops fields of entries, and starts helpers on the user's terminal, where one that
// hangs is waited for.
type credentialFile struct {
	path    string
	content map[string]json.RawMessage

	Auths   map[string]json.RawMessage // by the name of a registry, or of a namespace (host/team) as Podman writes it
	Helpers map[string]string          `json:"credHelpers"` // by the name of a registry
	Helper  string                     `json:"credsStore"`  // for all others
}

// readCredentials reads a file; one that does not exist has no credentials. Errors do not repeat what is in it.
func readCredentials(file string) (*credentialFile, error) {
	raw, err := textfile.Read(file, maxCredentials)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(bytes.TrimSpace(raw)) == 0 {
		raw, err = []byte("{}"), nil
	}
	if err != nil {
		return nil, err
	}
	f := &credentialFile{path: file}
	if json.Unmarshal(raw, &f.content) != nil || f.content == nil || json.Unmarshal(raw, f) != nil {
		return nil, fmt.Errorf("%s is not a file of credentials as docker login and podman login write it", file)
	}
	return f, nil
}

// helperOf returns the program that keeps the credentials of a registry, and the name that it knows the registry
// by; program is "" if the file keeps them.
func (f *credentialFile) helperOf(names []string) (program, key string, err error) {
	program, key = f.Helper, names[0]
	if i := slices.IndexFunc(names, func(n string) bool { return f.Helpers[n] != "" }); i >= 0 {
		program, key = f.Helpers[names[i]], names[i]
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
func namesOf(host string) []string {
	if host == "docker.io" || host == "index.docker.io" {
		return []string{dockerHub, "docker.io", "index.docker.io"}
	}
	return []string{host}
}

// isOld says whether a key is that of a registry, written as a URL as old versions of docker wrote it.
func isOld(key string, names []string) bool {
	u, err := url.Parse(key)
	return err == nil && u.Host != "" && slices.Contains(names, u.Host)
}

// userCredentials returns the user's credentials for a repository of a registry. A file that cannot be read is an error.
func userCredentials(ctx context.Context, host, repository string) (auth.Credential, error) {
	for _, file := range credentialFiles() {
		f, err := readCredentials(file)
		if err != nil {
			return auth.EmptyCredential, err
		}
		got, err := f.find(ctx, namesOf(host), repository)
		if err != nil {
			return auth.EmptyCredential, fmt.Errorf("credentials of %s by way of %s: %w", host, file, err)
		}
		if got != auth.EmptyCredential {
			return got, nil
		}
	}
	return auth.EmptyCredential, nil
}

// find returns the entry for the longest prefix of the repository's name; without one, the answer of the
// host's helper; without a helper, an entry that is written as a URL.
func (f *credentialFile) find(ctx context.Context, names []string, repository string) (auth.Credential, error) {
	var keys []string
	for p := repository; p != "."; p = path.Dir(p) {
		for _, host := range names {
			keys = append(keys, host+"/"+p)
		}
	}
	for _, key := range append(keys, names...) {
		if got, err := f.entry(key); err != nil || got != auth.EmptyCredential {
			return got, err
		}
	}
	program, key, err := f.helperOf(names)
	if err != nil {
		return auth.EmptyCredential, err
	}
	if program != "" {
		return runHelper(ctx, f.path, program, "get", key, "")
	}
	for key := range f.Auths {
		if isOld(key, names) {
			return f.entry(key)
		}
	}
	return auth.EmptyCredential, nil
}

// entry returns the credentials of an entry. Errors have no part of it.
func (f *credentialFile) entry(key string) (auth.Credential, error) {
	if f.Auths[key] == nil {
		return auth.EmptyCredential, nil
	}
	var e struct{ Auth, Username, Password, IdentityToken, RegistryToken string }
	wellFormed := json.Unmarshal(f.Auths[key], &e) == nil
	if e.Auth != "" {
		raw, err := base64.StdEncoding.DecodeString(e.Auth)
		var colon bool
		e.Username, e.Password, colon = strings.Cut(string(raw), ":")
		wellFormed = wellFormed && colon && err == nil
	}
	if !wellFormed {
		return auth.EmptyCredential, fmt.Errorf("its entry for %s is malformed", key)
	}
	return auth.Credential{Username: e.Username, Password: e.Password, RefreshToken: e.IdentityToken, AccessToken: e.RegistryToken}, nil
}

// StoreCredentials keeps user and password for a registry (host[:port]), where a [Client] finds them first: in the
// file $REGISTRY_AUTH_FILE or else in Docker's config.json ($DOCKER_CONFIG or ~/.docker), or in the helper
// program that this file names for the registry. All else in the file stays. It gets mode 0600, and is
// replaced as a whole. place says where they are, for people.
func StoreCredentials(ctx context.Context, registry, user, password string) (place string, err error) {
	if user == "" || password == "" || strings.Contains(user, ":") {
		return "", fmt.Errorf("store the credentials of %s: user and password must not be empty, and a user has no colon", registry)
	}
	f, helper, key, err := keeper(registry)
	switch {
	case err != nil:
	case helper != "":
		raw, _ := json.Marshal(helperEntry{ServerURL: key, Username: user, Secret: password}) //nolint:gosec // for the helper's stdin
		_, err = runHelper(ctx, f.path, helper, "store", string(raw), password)
	default:
		err = f.put(key, user, password)
	}
	if err != nil {
		return "", fmt.Errorf("store the credentials of %s: %w; nothing was changed", registry, err)
	}
	return f.place(helper), nil
}

// put replaces the credentials of an entry, and leaves what else it has.
func (f *credentialFile) put(key, user, password string) (err error) {
	fields := map[string]json.RawMessage{}
	if raw := f.Auths[key]; raw != nil && json.Unmarshal(raw, &fields) != nil {
		return fmt.Errorf("%s: its entry for %s is malformed", f.path, key)
	}
	for _, old := range []string{"username", "password", "identitytoken", "registrytoken"} {
		delete(fields, old)
	}
	fields["auth"] = json.RawMessage(`"` + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + `"`)
	if f.Auths == nil {
		f.Auths = map[string]json.RawMessage{}
	}
	if f.Auths[key], err = json.Marshal(fields); err != nil {
		return err
	}
	return f.save()
}

// save replaces the file; a link stays a link.
func (f *credentialFile) save() (err error) {
	if f.content["auths"], err = json.Marshal(f.Auths); err != nil {
		return err
	}
	target := f.path
	if linked, err := filepath.EvalSymlinks(f.path); err == nil {
		target = linked
	}
	raw, err := oci.EncodeJSON(f.content, "\t")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(target), 0o700)
	}
	if err != nil {
		return err
	}
	return atomicwriter.WriteFile(target, append(raw, '\n'), 0o600)
}

// EraseCredentials removes what [StoreCredentials] keeps for a registry. found is false if the file has nothing for
// it; a helper does not say.
func EraseCredentials(ctx context.Context, registry string) (place string, found bool, err error) {
	f, helper, key, err := keeper(registry)
	switch {
	case err != nil:
	case helper != "":
		_, err = runHelper(ctx, f.path, helper, "erase", key, "")
		found = true
	default:
		names, before := namesOf(registry), len(f.Auths)
		maps.DeleteFunc(f.Auths, func(key string, _ json.RawMessage) bool { return slices.Contains(names, key) || isOld(key, names) })
		if found = len(f.Auths) < before; found {
			err = f.save()
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("remove the credentials of %s: %w", registry, err)
	}
	return f.place(helper), found, nil
}

// keeper reads the file that keeps the credentials of a registry, or names the helper that does; key is the
// registry's name there.
func keeper(registry string) (f *credentialFile, helper, key string, err error) {
	if err := imagename.CheckRegistry(registry); err != nil {
		return nil, "", "", err
	}
	all := credentialFiles()
	if len(all) == 0 {
		return nil, "", "", errors.New("there is no home folder: name a file by $REGISTRY_AUTH_FILE, or a folder by $DOCKER_CONFIG")
	}
	if f, err = readCredentials(all[0]); err == nil {
		helper, key, err = f.helperOf(namesOf(registry))
	}
	return f, helper, key, err
}

func (f *credentialFile) place(helper string) string {
	if helper != "" {
		return helper + " (" + f.path + " names it)"
	}
	return f.path
}
