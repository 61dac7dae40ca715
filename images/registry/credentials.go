package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/driver-container/driver-container/distros/textfile"
)

// maxCredentials bounds a file of credentials, which people and programs edit, in bytes.
const maxCredentials = 1 << 20

// userKeychain finds the credentials of the user where docker login, podman login and crane auth
// login write them, in the forms that these and a kubelet take. [authn.DefaultKeychain] reads a
// single file, takes the credentials of a namespace (host/team) for the whole host, and waits for a
// helper program without a deadline.
type userKeychain struct{}

// Resolve returns the credentials for a repository.
func (k userKeychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

// ResolveContext returns the credentials of the first file that has some for a repository. A file
// that cannot be read is an error. Errors do not repeat what is in a file.
func (userKeychain) ResolveContext(
	ctx context.Context,
	target authn.Resource,
) (authn.Authenticator, error) {
	for _, file := range credentialFiles() {
		known, err := readCredentials(file)
		if err != nil {
			return nil, err
		}
		found, err := find(ctx, known, target.String())
		if err != nil {
			return nil, fmt.Errorf(
				"credentials of %s by way of %s: %w",
				target.RegistryStr(),
				file,
				err,
			)
		}
		if found != (authn.AuthConfig{}) {
			return authn.FromConfig(found), nil
		}
	}
	return authn.Anonymous, nil
}

// environmentFile stands for the variable in which GitLab and Docker's command line take a whole
// file.
const environmentFile = "$" + configfile.DockerEnvConfigKey

// usersFolder has a folder for each user in which Podman writes without $XDG_RUNTIME_DIR.
var usersFolder = "/run/containers"

// credentialFiles returns the files of credentials in the order in which they are asked:
// $DOCKER_AUTH_CONFIG and $REGISTRY_AUTH_FILE, because the user named these; Docker's configuration
// ($DOCKER_CONFIG or ~/.docker); Podman's auth.json in $XDG_RUNTIME_DIR/containers, or where root and
// CI jobs have no such folder in /run/containers/UID, and in $XDG_CONFIG_HOME/containers;
// ~/.dockercfg, which kubelets read.
func credentialFiles() []string {
	home, _ := os.UserHomeDir() // without one the variables count
	folder := func(variable, inHome string) string {
		set := os.Getenv(variable)
		if set != "" || home == "" {
			return set
		}
		return filepath.Join(home, inHome)
	}
	files := []string{environmentFile}
	add := func(folder string, elements ...string) {
		if folder != "" {
			files = append(files, filepath.Join(folder, filepath.Join(elements...)))
		}
	}
	add(os.Getenv("REGISTRY_AUTH_FILE"))
	add(folder("DOCKER_CONFIG", ".docker"), "config.json")
	runtimeDir := os.Getenv("XDG_RUNTIME_DIR")
	add(runtimeDir, "containers", "auth.json")
	if runtimeDir == "" {
		add(usersFolder, strconv.Itoa(os.Getuid()), "auth.json")
	}
	add(folder("XDG_CONFIG_HOME", ".config"), "containers", "auth.json")
	add(home, ".dockercfg")
	return files
}

// readCredentials reads a file in the format of Docker's config.json, which is also that of
// containers-auth.json(5), or in the older form of entries only. One that does not exist has no
// credentials.
func readCredentials(file string) (*configfile.ConfigFile, error) {
	text, err := credentialText(file)
	if errors.Is(err, fs.ErrNotExist) {
		return configfile.New(file), nil
	}
	if err != nil {
		return nil, err
	}
	known := configfile.New(file)
	if known.LoadFromReader(bytes.NewReader(text)) != nil {
		return nil, fmt.Errorf(
			"%s is not a file of credentials as docker login and podman login write it",
			file,
		)
	}
	if known.ContainsAuth() {
		return known, nil
	}
	older := configfile.New(file)
	if older.LoadFromReader(strings.NewReader(`{"auths":`+string(text)+`}`)) == nil {
		return older, nil
	}
	return known, nil // it has other settings only
}

func credentialText(file string) ([]byte, error) {
	if file != environmentFile {
		return textfile.Read(file, maxCredentials)
	}
	return textfile.Decode([]byte(os.Getenv(configfile.DockerEnvConfigKey)), maxCredentials)
}

// find returns what a file has for a repository: the entry of a namespace; else the answer of the
// helper program for the registry; else the entry of the registry.
func find(
	ctx context.Context,
	file *configfile.ConfigFile,
	repository string,
) (authn.AuthConfig, error) {
	entry, namespace := bestEntry(file.AuthConfigs, repository)
	if namespace {
		return entry, nil
	}
	host, _, _ := strings.Cut(repository, "/")
	helped, err := askHelper(ctx, file, host)
	if err != nil || helped != (authn.AuthConfig{}) {
		return helped, err
	}
	return entry, nil
}

// bestEntry returns the entry with the longest name that covers a repository, and whether that is
// the name of a namespace.
func bestEntry(
	entries map[string]types.AuthConfig,
	repository string,
) (best authn.AuthConfig, namespace bool) {
	longest := ""
	length := func(name string) int { return len(strings.ReplaceAll(name, "*", "")) }
	for key, entry := range entries {
		covers := entryName(key)
		better := length(covers) > length(longest) ||
			length(covers) == length(longest) && covers < longest
		found := authn.AuthConfig{
			Username: entry.Username, Password: entry.Password,
			IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken,
		}
		if better && found != (authn.AuthConfig{}) && isCovered(repository, covers) {
			longest = covers
			best = found
		}
	}
	return best, strings.Contains(longest, "/")
}

// entryName returns the name of a registry, or of a namespace (host/team), that the key of an entry
// means. Old versions of docker wrote URLs.
func entryName(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, rest, _ := strings.Cut(strings.TrimRight(key, "/"), "/")
	if host == "docker.io" || host == "registry-1.docker.io" {
		host = name.DefaultRegistry
	}
	if rest == "" || rest == "v1" || rest == "v2" {
		return host
	}
	return host + "/" + rest
}

// isCovered says whether a repository (host/path) is in a registry or namespace. As for a kubelet,
// each part of the host may have wildcards: *.example.com.
func isCovered(repository, covers string) bool {
	host, rest, _ := strings.Cut(repository, "/")
	pattern, namespace, _ := strings.Cut(covers, "/")
	inside := namespace == "" || strings.HasPrefix(rest+"/", namespace+"/")
	if !inside || strings.Count(host, ".") != strings.Count(pattern, ".") {
		return false
	}
	// In package path a wildcard ends at a slash. A malformed pattern matches nothing.
	slashes := strings.NewReplacer(".", "/")
	matches, _ := path.Match(slashes.Replace(pattern), slashes.Replace(host))
	return matches
}
