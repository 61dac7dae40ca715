package registry

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// NewKeychain finds credentials as people have them: $REGISTRY_AUTH_FILE, because somebody asked for it by name; then
// Docker's configuration with its helpers; then Podman's auth.json in $XDG_RUNTIME_DIR/containers and in
// $XDG_CONFIG_HOME/containers. go-containerregistry's own keychain looks at Podman's files only where Docker has no
// configuration at all, which fails on machines with both. Podman's keys may name a namespace (host/team).
func NewKeychain() authn.Keychain {
	files := []string{}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		files = append(files, filepath.Join(dir, "containers", "auth.json"))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "containers", "auth.json"))
	}
	chain := []authn.Keychain{authn.DefaultKeychain}
	for _, f := range files {
		chain = append(chain, authFile{path: f})
	}
	if f := os.Getenv("REGISTRY_AUTH_FILE"); f != "" {
		chain = append([]authn.Keychain{authFile{path: f}}, chain...)
	}
	return authn.NewMultiKeychain(chain...)
}

// authFile is a file in the format of containers-auth.json(5).
type authFile struct{ path string }

var _ authn.ContextKeychain = authFile{}

// Resolve implements authn.Keychain.
func (a authFile) Resolve(r authn.Resource) (authn.Authenticator, error) {
	return a.ResolveContext(context.Background(), r)
}

// ResolveContext implements authn.ContextKeychain. A file that is not there has no credentials; one that cannot be read is
// an error that does not repeat its content.
func (a authFile) ResolveContext(_ context.Context, r authn.Resource) (authn.Authenticator, error) {
	f, err := os.Open(a.path)
	if os.IsNotExist(err) {
		return authn.Anonymous, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	cf, err := config.LoadFromReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s is not a file of credentials as docker login and podman login write it", a.path)
	}
	for _, key := range authKeys(r) {
		got, err := cf.GetAuthConfig(key)
		if err != nil {
			return nil, fmt.Errorf("credentials of %s by way of %s: %w", key, a.path, err)
		}
		got.ServerAddress = "" // set even if nothing was found
		if got != (types.AuthConfig{}) {
			return authn.FromConfig(authn.AuthConfig{
				Username: got.Username, Password: got.Password, Auth: got.Auth,
				IdentityToken: got.IdentityToken, RegistryToken: got.RegistryToken,
			}), nil
		}
	}
	return authn.Anonymous, nil
}

// authKeys are the names under which credentials may be kept, the most specific one first.
func authKeys(r authn.Resource) []string {
	hosts := []string{r.RegistryStr()}
	if r.RegistryStr() == name.DefaultRegistry {
		hosts = []string{"docker.io", authn.DefaultAuthKey, name.DefaultRegistry}
	}
	var keys []string
	rest, _ := strings.CutPrefix(r.String(), r.RegistryStr())
	for _, host := range hosts {
		for p := strings.Trim(rest, "/"); p != "" && p != "."; p = path.Dir(p) {
			keys = append(keys, host+"/"+p)
		}
		keys = append(keys, host)
	}
	return keys
}
