// Package credentials reads and writes the credentials of registries where docker login and podman login keep
// them: files in the format of Docker's config.json, and helper programs that such a file names.
//
// It does not know registries' protocol: package registry sends the credentials.
package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/credentials"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/distros/bounded"
)

// NewKeychain returns a keychain that looks for credentials in this order: $REGISTRY_AUTH_FILE, because the
// user named that file; Docker's configuration ($DOCKER_CONFIG or ~/.docker) with its helpers; Podman's
// auth.json in $XDG_RUNTIME_DIR/containers and in $XDG_CONFIG_HOME/containers. Podman's keys may name a
// namespace (host/team).
//
// It does not use authn.DefaultKeychain, which reads Podman's files only where Docker has no configuration at
// all, and uses the credentials of host/team for the whole host.
func NewKeychain() authn.Keychain {
	var files []string
	add := func(elem ...string) {
		if elem[0] != "" {
			files = append(files, filepath.Join(elem...))
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	add(os.Getenv("REGISTRY_AUTH_FILE"))
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		add(dir, config.ConfigFileName)
	} else {
		add(home, ".docker", config.ConfigFileName)
	}
	add(os.Getenv("XDG_RUNTIME_DIR"), "containers", "auth.json")
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		add(dir, "containers", "auth.json")
	} else {
		add(home, ".config", "containers", "auth.json")
	}
	var chain []authn.Keychain
	for _, f := range files {
		chain = append(chain, authFile{path: f})
	}
	return authn.NewMultiKeychain(chain...)
}

// authFile is a file in the format of containers-auth.json(5), which is also that of Docker's config.json.
type authFile struct{ path string }

var _ authn.ContextKeychain = authFile{}

// Resolve implements authn.Keychain.
func (a authFile) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return a.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain. A file that does not exist has no credentials. One that
// cannot be read is an error; its text does not repeat the file's content.
func (a authFile) ResolveContext(_ context.Context, r authn.Resource) (authn.Authenticator, error) {
	f, err := bounded.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return authn.Anonymous, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cf, err := config.LoadFromReader(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s is not a file of credentials as docker login and podman login write it", a.path)
	}
	got, err := lookUp(cf, r)
	if err != nil {
		return nil, fmt.Errorf("credentials of %s by way of %s: %w", r.RegistryStr(), a.path, err)
	}
	got.ServerAddress = "" // set even if nothing was found
	if got == (types.AuthConfig{}) {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(authn.AuthConfig{
		Username: got.Username, Password: got.Password, Auth: got.Auth,
		IdentityToken: got.IdentityToken, RegistryToken: got.RegistryToken,
	}), nil
}

// lookUp returns the entry for the longest prefix of the repository's name; without one, the answer of the
// host's helper; without a helper, an entry that is written as a URL, as old versions of docker wrote it.
func lookUp(cf *configfile.ConfigFile, r authn.Resource) (types.AuthConfig, error) {
	hosts := []string{r.RegistryStr()}
	if r.RegistryStr() == name.DefaultRegistry {
		hosts = []string{authn.DefaultAuthKey, "docker.io", name.DefaultRegistry}
	}
	rest, _ := strings.CutPrefix(r.String(), r.RegistryStr())
	for p := strings.Trim(rest, "/"); ; p = path.Dir(p) {
		for _, host := range hosts {
			key := strings.TrimSuffix(host+"/"+p, "/.")
			if p == "" {
				key = host
			}
			if got := cf.AuthConfigs[key]; got.Username != "" || got.Auth != "" || got.IdentityToken != "" || got.RegistryToken != "" {
				return got, nil
			}
		}
		if p == "" || p == "." {
			break
		}
	}
	for _, host := range hosts {
		if cf.CredentialHelpers[host] != "" {
			return credentials.NewNativeStore(cf, cf.CredentialHelpers[host]).Get(host)
		}
	}
	if cf.CredentialsStore != "" {
		return cf.GetAuthConfig(hosts[0])
	}
	for key, got := range cf.AuthConfigs {
		if strings.Contains(key, "://") && slices.Contains(hosts, credentials.ConvertToHostname(key)) {
			return got, nil
		}
	}
	return types.AuthConfig{}, nil
}
